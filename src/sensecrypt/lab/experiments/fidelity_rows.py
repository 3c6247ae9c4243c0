"""The rows of docs/fidelity.toml: one per equation, algorithm line, setting, figure or statement of the paper.

The verdict of a row is that of an item, if an item judges the statement (`claim`). Otherwise it is `verdict`, with its
reason (`why`) unless it is `same` or `item`. With `item` it depends on the item's settings: on the comparison of
`item_values` with the paper's, or on the differences that the item names.
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
    """One row, as written."""

    paper: str  # where in the paper
    says: str  # what it says
    code: tuple[str, ...] = ()  # `module:name` within the package, or `module`; each must exist
    settings: tuple[str, ...] = ()  # of preset `paper`; also `profile.NAME` and `parameters.MODEL`
    values: dict[str, Any] = field(default_factory=dict)  # the same with the paper's values
    scenario: str = ""  # of `sensecrypt compare`, whose settings replace the preset's
    dataset: str = ""  # likewise
    preset: str = ""  # what preset `paper` does, in words
    item: str = ""  # the item of `sensecrypt reproduce` that judges it
    claim: tuple[str, ...] = ()  # parts of the judged sentence
    unjudged: str = ""  # why `item` does not judge `claim` yet
    runs: str = ""  # the item in which it ran, if none judges it
    item_values: dict[str, Any] = field(default_factory=dict)  # settings of that item, with the paper's values
    not_run: str = ""  # why it did not run
    ignore: tuple[str, ...] = ()  # parts of the item's notes on size that do not concern this row
    unmeasured: bool = False  # whether the paper gives no measurement of it
    verdict: str = ""  # if no item judges it
    why: str = ""  # the reason of that verdict

    @property
    def name(self) -> str:
        """The row, for error messages."""
        return f"row {self.paper!r}, {self.says!r}"


@dataclass(frozen=True)
class Part:
    """A section of the page."""

    title: str
    rows: tuple[PaperRow, ...]


@dataclass(frozen=True)
class Written:
    """The whole file."""

    parts: tuple[Part, ...]  # in the order of the page
    preset_since: str  # the day since which preset `paper` has its present values
    preset_items: tuple[str, ...]  # the items that run it
    size_notes: tuple[str, ...]  # parts of items' notes about size that hold at every scale
    other_notes: tuple[str, ...]  # parts of items' notes of one scale that are not about size

    @property
    def rows(self) -> list[PaperRow]:
        """The rows of all parts."""
        return [row for part in self.parts for row in part.rows]


def read_written(path: Path) -> Written:
    """The rows of a file, each checked."""
    table = read_toml(path, otherwise="write it next to the page", example='[[part.row]]\npaper = "Eq. 2"')
    refuse_unknown(table, ("preset_since", *_LISTS, "part"), path.name)
    parts = []
    for part in table.get("part", ()):
        refuse_unknown(part, ("title", "row"), "a part")
        parts.append(Part(str(part.get("title", "")), tuple(_row(each) for each in part.get("row", ()))))
    items = (tuple(table.get(key, ())) for key in _LISTS)
    return Written(tuple(parts), str(table.get("preset_since", "")), *items)


def _row(table: dict[str, Any]) -> PaperRow:
    where = f"row {table.get('paper', '?')!r}, {table.get('says', '?')!r}"
    refuse_unknown(table, [each.name for each in dataclasses.fields(PaperRow)], where)
    for key in ("paper", "says"):
        if not table.get(key):
            raise InvalidInput(where, f"lacks `{key}`", "name the place in the paper, and what it says")
    for key in ("code", "settings", "claim", "ignore"):
        if key in table:
            table[key] = (table[key],) if isinstance(table[key], str) else tuple(table[key])
    row = PaperRow(**table)
    for wrong, problem, fix in _problems(row):
        if wrong:
            raise InvalidInput(row.name, problem, fix)
    for each in row.code:
        check_code(each, row.name)
    preset_values(row)
    return row


def _problems(row: PaperRow) -> list[tuple[bool, str, str]]:
    """The possible problems of a row: whether it has them, their text, and the fix."""
    judged = bool(row.claim or row.item or row.unjudged)
    places = sum(map(bool, (row.item, row.runs, row.not_run)))
    verdict, reason = row.verdict, row.verdict in ("same", "item") or bool(row.why)
    by_hand, choices = bool(verdict or row.why), ", ".join(BY_HAND)
    return [
        (judged and not (row.claim and row.item), "has item and claim only in part", "give both, or runs and verdict"),
        (judged and by_hand, "has a verdict by hand and an item that judges it", "drop `verdict` and `why`"),
        (not judged and verdict not in BY_HAND, f"has verdict {verdict!r}", f"choose one of {choices}"),
        (verdict == "item" and not row.runs, "leaves the verdict to an item, but names none", "give it in `runs`"),
        (bool(row.item_values) and verdict != "item", "has item_values, and a verdict by hand", "give verdict item"),
        (not judged and not reason, f"is {verdict!r} without a reason", "give it in `why`"),
        (places != 1, "does not name once where it ran", "give one of item, runs and not_run"),
        (not row.code and not row.item, "names no code", 'give code = ["module:name"]'),
    ]


def check_code(reference: str, where: str) -> None:
    """Refuse a reference to code that does not exist."""
    module, _, name = reference.partition(":")
    try:
        found: Any = import_module(f"{PACKAGE}.{module}")
        for part in filter(None, name.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        problem = f"refers to {reference!r}, which does not exist ({error})"
        raise InvalidInput(where, problem, "correct `code`") from None


def preset_values(row: PaperRow) -> dict[str, Any]:
    """The settings that a row names, with their values in preset `paper`."""
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
    raise InvalidInput(row.name, f"names setting {name!r}, which does not exist", "see sensecrypt.config.RunConfig")


@cache
def _parameters(model: str) -> int:
    return sum(each.numel() for each in build_model(model, seed=0).parameters())
