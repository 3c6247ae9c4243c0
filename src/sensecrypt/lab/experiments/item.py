"""One figure or table of the paper: how it is measured, drawn and judged.

Measuring gives flat rows. Drawing and judging read only rows, so both can be repeated from a file.
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
    """One statement and what was measured about it."""

    says: str  # what the paper says; for an item of our own, the question
    measured: str  # the figures that answer it
    # `reproduced in shape`: the trend, not the size; `beyond`: more than the paper claims, or not in the paper;
    # `too little to tell`: measured on too few clients, rounds or samples for a verdict
    outcome: Outcome

    def __post_init__(self) -> None:
        """Refuse an unknown outcome."""
        checks.choice("outcome", self.outcome, OUTCOMES)


def graded(holds: bool, shape: bool = False, *, unsure: bool = False) -> Outcome:
    """The outcome of a statement of the paper: it holds, only its trend holds (`shape`), or neither."""
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
    """A part of an item that is measured separately and saved as soon as it is done."""

    name: str  # unique within the item; part of a file's name
    seconds: float  # estimated duration on two cores
    # returns its rows; the folder is for its own files, which survive an interruption
    measure: Callable[[Path], list[Row]]


@dataclass(frozen=True)
class Item:
    """A figure or table."""

    id: str  # its name on the command line
    title: str  # what it shows
    place: str  # where it is in the paper; empty for one of our own
    cells: Callable[[Spec], list[Cell]]  # its parts, given its settings
    draw: Callable[[Rows], Figure]  # the picture
    judge: Callable[[Rows], list[Verdict]]  # the statements about it, each with its outcome
    datasets: Callable[[Spec], Sequence[str]] = named_datasets  # the data sets that it needs, given its settings
