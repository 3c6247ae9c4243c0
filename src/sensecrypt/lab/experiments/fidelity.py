"""docs/fidelity.md: the paper's statements row by row, each with code, preset `paper` and result.

The texts are in docs/fidelity.toml; values of settings, sizes of runs and verdicts of items are added here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.experiments.fidelity_rows import PaperRow, Written, preset_values, read_written
from sensecrypt.lab.experiments.item import Item, Verdict
from sensecrypt.lab.experiments.saved import ROWS, judge, read_rows
from sensecrypt.lab.experiments.specs import common_differs, read_spec

RESULTS = "results.md"
MIXED = "mixed"
_WORDS = {"reading": "a reading"}
_TABLE = ("| in the paper | it says | code | preset `paper` | ran at size | verdict |", "|---|---|---|---|---|---|")
_HEAD = """# The paper, line by line

Every equation, algorithm line, setting, figure, table and checkable statement of the paper: where it is in the code,
what preset `paper` does, whether it ran at the paper's size, and the result. Made by `make docs` from `{rows}`:
the values of settings are those of the configuration, sizes and verdicts of measurements are those of the
[results](results.md), and a row that names code that does not exist is an error.

*Same*: as in the paper. *A reading*: the paper leaves it open; the reason says how the reading was chosen. *Differs*:
with its reason. *Reproduced*, *reproduced in shape*, *not reproduced*, *beyond*: as in the results, by criteria in
code. *Too little to tell*: no verdict, with its reason. *Mixed*: judged for several networks or data sets, with
different outcomes. *Ran at size*: "yes" means as many clients, rounds, samples and parameters as the paper states;
otherwise the column says what is smaller. In items, preset `paper` charges python-paillier's measured cost instead of
encrypting ([decision 7](decisions/0007-the-device-clock.md)). †: measured with earlier settings, or before {since},
when preset `paper` got its present values.
"""


@dataclass(frozen=True)
class _Measured:
    """An item and its rows."""

    item: Item
    ran: bool = False  # whether there are rows
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the measurement
    verdicts: Sequence[Verdict] = ()
    size: Sequence[str] = ()  # notes on how the rows are smaller than the paper's
    other: Sequence[str] = ()  # notes on other differences
    earlier: bool = False  # whether they were measured with other settings than the present ones


def write_fidelity(items: Sequence[Item], results: Path, page: Path, *, specs: Path | None = None) -> str:
    """The text of the page, from the rows in the TOML file of the same name and the items' results.

    `results` has one folder per item; `specs` is the folder of the items' settings, if not the project's.
    """
    written = read_written(page.with_suffix(".toml"))
    known = {item.id: _measured(item, results, written, specs) for item in items}
    lines, outcomes, placed = [], [], set()
    for part in written.parts:
        lines += ["", f"## {part.title}", "", *_TABLE]
        for row in part.rows:
            line, outcome, found = _line(row, known)
            lines.append(line)
            outcomes.append(outcome)
            placed |= found
    more = _unplaced(known, written, placed)
    if more:
        lines += ["", "## Judged, and not placed above", "", *_TABLE, *(line for line, _ in more)]
        outcomes += [outcome for _, outcome in more]
    head = _HEAD.format(rows=page.with_suffix(".toml").name, since=written.preset_since)
    return "\n".join([head, *_counts(outcomes), *lines]) + "\n"


def _measured(item: Item, results: Path, written: Written, specs: Path | None) -> _Measured:
    if not (results / item.id / ROWS).exists():
        return _Measured(item)
    saved = read_rows(results / item.id)
    spec = read_spec(item.id, saved.scale, {}, folder=specs)
    earlier = (saved.settings, tuple(saved.differs)) != (spec.settings, spec.differs)
    earlier |= item.id in written.preset_items and saved.day < written.preset_since
    common = common_differs(item.id, folder=specs)
    if len(saved.differs) == len(spec.differs):  # notes that hold at every scale come first, even if reworded since
        common = tuple(saved.differs[: len(common)])
    size = [note for note in saved.differs if _is_size(note, note in common, written)]
    other = [note for note in saved.differs if note not in size]
    return _Measured(item, True, saved.settings, judge(item, saved), size, other, earlier)


def _is_size(note: str, common: bool, written: Written) -> bool:
    exceptions = written.size_notes if common else written.other_notes
    return common == any(part in note for part in exceptions)


def _line(row: PaperRow, known: Mapping[str, _Measured]) -> tuple[str, str, set[tuple[str, str]]]:
    """A row of the table, its outcome, and the judged statements in it."""
    for name in filter(None, (row.item, row.runs)):
        if name not in known and not row.unjudged:
            fix = f"choose one of {', '.join(known)}"
            raise InvalidInput(row.name, f"names item {name!r}, which does not exist", fix)
    source = known.get(row.item or row.runs)
    found = _matching(row, source) if row.item and source is not None and source.ran else []
    outcome, verdict = _verdict(row, source, found)
    code = row.code or ((_judge_of(source.item),) if source is not None else ())
    references = ", ".join(f"`{each}`" for each in code)
    cells = (row.paper, row.says, references, _preset(row, source), _size(row, source), verdict)
    return _cells(cells), outcome, {(row.item, each.says) for each in found}


def _verdict(row: PaperRow, source: _Measured | None, found: Sequence[Verdict]) -> tuple[str, str]:
    """The outcome, and the verdict as the table shows it."""
    if row.item and found:
        outcome, words = _outcome(found)
        return outcome, f"{words} ([{row.item}]({RESULTS}#{row.item}))"
    outcome, why = row.verdict, row.why
    if source is not None and not source.ran and (row.item or row.verdict == "item"):
        outcome, why = "not run", f"`{source.item.id}` is not measured yet"
    elif row.item:
        outcome, why = "too little to tell", row.unjudged
    elif row.verdict == "item" and source is not None:
        differences = _differences(row, source)
        outcome, why = ("differs", "; ".join(differences)) if differences else ("same", "")
    return outcome, f"**{_WORDS.get(outcome, outcome)}**" + (f": {why}" if why else "")


def _differences(row: PaperRow, source: _Measured) -> Sequence[str]:
    """How the item's settings differ from the paper's."""
    if not row.item_values:
        return source.other
    return [
        f"`{name}` is {_plain(source.settings.get(name))}, the paper's {_plain(papers)}"
        for name, papers in row.item_values.items()
        if source.settings.get(name) != papers
    ]


def _matching(row: PaperRow, source: _Measured) -> list[Verdict]:
    """The verdicts whose statements contain all parts of the row's claim: one, or one per network or data set."""
    found = [
        each
        for each in source.verdicts
        if not _is_ours(each) and all(part.lower() in each.says.lower() for part in row.claim)
    ]
    if not found and not row.unjudged:
        theirs = "; ".join(each.says for each in source.verdicts if not _is_ours(each))
        raise InvalidInput(row.name, f"has no claim of {row.item} with {row.claim}", f"choose parts of: {theirs}")
    if len({_statement(each)[1] for each in found}) > 1:
        several = "; ".join(each.says for each in found)
        raise InvalidInput(row.name, f"has several claims of {row.item} ({several})", "add a part to choose one")
    return found


def _outcome(found: Sequence[Verdict]) -> tuple[str, str]:
    outcomes = list(dict.fromkeys(each.outcome for each in found))
    if len(outcomes) == 1:
        return outcomes[0], f"**{outcomes[0]}**"
    parts = [f"{_statement(each)[0]}: **{each.outcome}**" for each in found]
    return MIXED, "; ".join(parts)


def _statement(verdict: Verdict) -> tuple[str, str]:
    """The subject of a verdict (network, data set or method) and its statement, as in "A: it falls (B)"."""
    subject, _, rest = verdict.says.rpartition(": ")
    rest, _, method = rest.removesuffix(")").partition(" (") if rest.endswith(")") else (rest, "", "")
    return ", ".join(filter(None, (subject, method))), rest


def _unplaced(known: Mapping[str, _Measured], written: Written, placed: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Statements of the paper that items judge but no row shows, and items that no row names."""
    named = {name for row in written.rows for name in (row.item, row.runs)}
    found: list[tuple[str, str]] = []
    for name, source in known.items():
        for each in source.verdicts:
            of_paper = source.item.place and not _is_ours(each)
            if (of_paper and (name, each.says) not in placed) or (not source.item.place and name not in named):
                verdict = f"**{each.outcome}** ([{name}]({RESULTS}#{name}))"
                place, code = source.item.place or "ours", f"`{_judge_of(source.item)}`"
                found.append((_cells((place, each.says, code, "", _ran(source), verdict)), each.outcome))
    return found


def _is_ours(verdict: Verdict) -> bool:
    """Whether a verdict answers a question of ours, not a statement of the paper."""
    return "ours:" in verdict.says or "(ours)" in verdict.says


def _size(row: PaperRow, source: _Measured | None) -> str:
    if row.not_run:
        return f"not run: {row.not_run}"
    if source is None or not source.ran:
        return f"not run: `{row.item or row.runs}` is not measured yet"
    if row.unmeasured:
        return f"the paper gives no measurement; ours: {_link(source)}"
    return _ran(source, row.ignore)


def _ran(source: _Measured, ignore: Sequence[str] = ()) -> str:
    size = [note for note in source.size if not any(part in note for part in ignore)]
    words = "smaller: " + "; ".join(size) if size else "yes"
    return f"{words} ({_link(source)})"


def _link(source: _Measured) -> str:
    return f"[{source.item.id}]({RESULTS}#{source.item.id}){' †' if source.earlier else ''}"


def _preset(row: PaperRow, source: _Measured | None) -> str:
    found = [f"`{name} = {_plain(value)}`" for name, value in preset_values(row).items()]
    if source is not None and source.ran:
        found += [f"item: `{name} = {_plain(source.settings.get(name))}`" for name in row.item_values]
    return "; ".join([*found, *([row.preset] if row.preset else [])])


def _plain(value: Any) -> str:
    if isinstance(value, list):
        rows = [value] if not any(isinstance(each, list) for each in value) else value
        return "; ".join(", ".join(map(_plain, row)) for row in rows)
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def _judge_of(item: Item) -> str:
    return f"{item.judge.__module__.partition('.')[2]}:{item.judge.__name__}"


def _counts(outcomes: Sequence[str]) -> list[str]:
    counts = Counter(_WORDS.get(outcome, outcome) for outcome in outcomes)
    return [f"{len(outcomes)} rows: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()) + "."]


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
