"""One figure or table of the paper: how it is measured, drawn and judged.

Measuring gives flat rows; drawing and judging see nothing but rows, so that both can be repeated from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sensecrypt import checks
from sensecrypt.lab.drawing import Figure

Scalar = str | int | float | bool | None
Row = dict[str, Scalar]
Rows = Sequence[Mapping[str, Any]]
Spec = Mapping[str, Any]
Outcome = Literal["reproduced", "reproduced in shape", "not reproduced", "beyond", "too little to tell"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Verdict:
    """One statement beside what was measured.

    Attributes:
        says: what the paper says; of an item of our own, what is asked.
        measured: the figures that answer it.
        outcome: `reproduced`; `reproduced in shape`: the trend, not the size; `not reproduced`; `beyond`: more than the
            paper claims, or something it does not have; `too little to tell`: measured, but on too few clients, rounds
            or samples for a verdict.
    """

    says: str
    measured: str
    outcome: Outcome

    def __post_init__(self) -> None:
        """Refuse an outcome that there is not."""
        checks.choice("outcome", self.outcome, OUTCOMES)


def graded(holds: bool, shape: bool = False, *, unsure: bool = False) -> Outcome:
    """The outcome of a statement of the paper: it holds, only its trend does (`shape`), or neither."""
    if unsure:
        return "too little to tell"
    return "reproduced" if holds else "reproduced in shape" if shape else "not reproduced"


def answer(holds: bool) -> Outcome:
    """The outcome of a question of our own."""
    return "beyond" if holds else "not reproduced"


def named_datasets(spec: Spec) -> list[str]:
    """The data sets that the settings name, as `datasets` or as `dataset`."""
    return list(spec.get("datasets", [spec["dataset"]] if "dataset" in spec else []))


@dataclass(frozen=True)
class Cell:
    """A part of an item that is measured on its own and kept as soon as it is done.

    Attributes:
        name: within the item; part of a file's name.
        seconds: about how long it takes on two cores.
        measure: gives its rows; the folder is for files of its own, and still has them after an interruption.
    """

    name: str
    seconds: float
    measure: Callable[[Path], list[Row]]


@dataclass(frozen=True)
class Item:
    """A figure or table.

    Attributes:
        id: by which it is asked for.
        title: what it shows.
        place: where it is in the paper; empty for one of our own.
        cells: what is to be measured, given its settings.
        draw: the picture.
        judge: the statements about it, each with its outcome.
        datasets: that it needs, given its settings.
    """

    id: str
    title: str
    place: str
    cells: Callable[[Spec], list[Cell]]
    draw: Callable[[Rows], Figure]
    judge: Callable[[Rows], list[Verdict]]
    datasets: Callable[[Spec], Sequence[str]] = named_datasets
