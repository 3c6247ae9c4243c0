"""The rows of docs/fidelity.toml: one per equation, algorithm line, setting, figure or statement of the paper.

A row says where in the paper it stands and what it says (`paper`, `says`); where it is in the code (`code`, names that
must exist); what preset `paper` does (`settings`, whose values are read from the configuration, `values`, the same
beside the paper's own, and `preset`, words); where it ran (`item` or `runs`, an item of `sensecrypt reproduce`; or
`not_run`, a reason); and the verdict. That is the item's where an item judges the statement (`claim`, parts of the
judged sentence); otherwise `verdict`, with its reason (`why`) unless it is `same`, or `item`: then the item's settings
decide, either those in `item_values` against the paper's, or the differences that they name.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from sensecrypt.config import RunConfig, make_config, to_settings
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.compare.scenarios import scenario_settings
from sensecrypt.models import build_model
from sensecrypt.profiles import get_profile
from sensecrypt.tomlfile import read_toml, refuse_unknown

ByHand = Literal["same", "reading", "differs", "too little to tell", "item"]
BY_HAND: tuple[ByHand, ...] = get_args(ByHand)
PACKAGE = "sensecrypt"
_LISTS = ("preset_items", "size_notes", "other_notes")


@dataclass(frozen=True)
class PaperRow:
    """One row, as written.

    Attributes:
        paper: where in the paper.
        says: what it says.
        code: `module:name` within the package, or `module`.
        settings: names of settings, `profile.NAME` for those of the encryption, `parameters.MODEL` for networks.
        values: the same with the paper's values.
        scenario: of `sensecrypt compare`, whose settings go above the preset's.
        dataset: likewise.
        preset: what preset `paper` does, in words.
        item: which judges it.
        claim: parts of the judged sentence.
        unjudged: why no item judges it, where an item or a claim of it is expected that may not be there yet.
        runs: the item in which it ran, where none judges it.
        item_values: settings of that item, with the paper's values.
        not_run: why it did not run.
        ignore: parts of the item's notes on size that do not concern this row.
        unmeasured: whether the paper gives no measurement of it.
        verdict: where no item judges it.
        why: the reason of that verdict.
    """

    paper: str
    says: str
    code: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    scenario: str = ""
    dataset: str = ""
    preset: str = ""
    item: str = ""
    claim: tuple[str, ...] = ()
    unjudged: str = ""
    runs: str = ""
    item_values: dict[str, Any] = field(default_factory=dict)
    not_run: str = ""
    ignore: tuple[str, ...] = ()
    unmeasured: bool = False
    verdict: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        """As errors call it."""
        return f"row {self.paper!r}, {self.says!r}"


@dataclass(frozen=True)
class Part:
    """A section of the page."""

    title: str
    rows: tuple[PaperRow, ...]


@dataclass(frozen=True)
class Written:
    """The whole file.

    Attributes:
        parts: in the order of the page.
        preset_since: the day since which preset `paper` has its present values.
        preset_items: the items that run it.
        size_notes: parts of items' notes that are about size, although they hold at every scale.
        other_notes: parts of items' notes that are not about size, although they stand at a scale.
    """

    parts: tuple[Part, ...]
    preset_since: str
    preset_items: tuple[str, ...]
    size_notes: tuple[str, ...]
    other_notes: tuple[str, ...]

    @property
    def rows(self) -> list[PaperRow]:
        """Of all parts."""
        return [row for part in self.parts for row in part.rows]


def read_written(path: Path) -> Written:
    """The rows of a file, each checked."""
    table = read_toml(path, otherwise="write it beside the page", example='[[part.row]]\npaper = "Eq. 2"')
    refuse_unknown(table, ("preset_since", *_LISTS, "part"), path.name)
    parts = []
    for part in table.get("part", ()):
        refuse_unknown(part, ("title", "row"), "a part")
        parts.append(Part(str(part.get("title", "")), tuple(_row(each) for each in part.get("row", ()))))
    items = (tuple(table.get(key, ())) for key in _LISTS)
    return Written(tuple(parts), str(table.get("preset_since", "")), *items)


def _row(table: dict[str, Any]) -> PaperRow:
    known = [each.name for each in dataclasses.fields(PaperRow)]
    where = f"row {table.get('paper', '?')!r}, {table.get('says', '?')!r}"
    refuse_unknown(table, known, where)
    for key in ("paper", "says"):
        if not table.get(key):
            raise InvalidInput(where, f"lacks `{key}`", "say where in the paper it stands, and what it says")
    for key in ("code", "settings", "claim", "ignore"):
        if key in table:
            table[key] = (table[key],) if isinstance(table[key], str) else tuple(table[key])
    row = PaperRow(**table)
    _check_verdict(row)
    if sum(map(bool, (row.item, row.runs, row.not_run))) != 1:
        raise InvalidInput(row.name, "does not say once where it ran", "give one of item, runs and not_run")
    for each in row.code:
        check_code(each, row.name)
    if not row.code and not row.item:
        raise InvalidInput(row.name, "names no code", 'give code = ["module:name"]')
    preset_values(row)
    return row


def _check_verdict(row: PaperRow) -> None:
    if row.claim or row.item or row.unjudged:
        if not (row.claim and row.item):
            raise InvalidInput(row.name, "has one of item and claim only", "give both, or `runs` and `verdict`")
        if row.verdict or row.why:
            raise InvalidInput(
                row.name, "has a verdict by hand, and an item that judges it", "drop `verdict` and `why`"
            )
        return
    if row.verdict not in BY_HAND:
        raise InvalidInput(row.name, f"has verdict {row.verdict!r}", f"choose one of {', '.join(BY_HAND)}")
    if row.verdict == "item" and not row.runs:
        raise InvalidInput(row.name, "leaves the verdict to an item, and names none", "give the item in `runs`")
    if row.item_values and row.verdict != "item":
        raise InvalidInput(row.name, "has item_values, and a verdict by hand", "give verdict item")
    if row.verdict not in ("same", "item") and not row.why:
        raise InvalidInput(row.name, f"is {row.verdict!r} without a reason", "give it in `why`")


def check_code(reference: str, where: str) -> None:
    """Refuse a reference to code that there is not."""
    module, _, name = reference.partition(":")
    try:
        found: Any = import_module(f"{PACKAGE}.{module}")
        for part in filter(None, name.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(where, f"refers to {reference!r}, which is not there ({error})", "correct `code`") from None


def preset_values(row: PaperRow) -> dict[str, Any]:
    """The settings that a row names, as preset `paper` has them."""
    if not row.settings and not row.values:
        return {}
    found = {name: _value(name, _configured(row.scenario, row.dataset), row) for name in (*row.settings, *row.values)}
    if row.verdict == "same":
        for name, papers in row.values.items():
            if found[name] != papers:
                problem = f"is called the same, but `{name}` is {found[name]!r} and the paper's is {papers!r}"
                raise InvalidInput(row.name, problem, "correct `values`, or give verdict differs and the reason")
    return found


@cache
def _configured(scenario: str, dataset: str) -> RunConfig:
    own: dict[str, Any] = {"dataset": dataset} if dataset else {}
    if scenario:
        own = scenario_settings(scenario, dataset or "fashion-mnist", {})
    return make_config({**own, "preset": "paper"})


def _value(name: str, config: RunConfig, row: PaperRow) -> Any:
    kind, _, rest = name.partition(".")
    if kind == "profile" and rest:
        profile = dataclasses.asdict(get_profile(config.encryption.profile))
        if rest in profile:
            return profile[rest]
    elif kind == "parameters" and rest:
        return _parameters(rest)
    elif name in (settings := to_settings(config)):
        return settings[name]
    raise InvalidInput(row.name, f"names setting {name!r}, which is not there", "see sensecrypt.config.RunConfig")


@cache
def _parameters(model: str) -> int:
    return sum(each.numel() for each in build_model(model, seed=0).parameters())
