"""The rows of the main evaluation, looked up by scenario, data set and method."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from sensecrypt.lab.compare.scenarios import SCENARIOS
from sensecrypt.lab.experiments.item import Rows
from sensecrypt.lab.experiments.picking import distinct, where

OURS, AHEAD = "our default", "our default, ahead"
READINGS = ("all", "feasible")  # other masks over which the objectives may be normalised than those of preset paper
METHODS = {
    "Plaintext": "plaintext@paper",
    "Baseline": "full@paper",
    "MaskCrypt": "maskcrypt@paper",
    "SenseCrypt": "sensecrypt@paper",
}
DEFAULTS = {
    "Plaintext": "plaintext@paper",
    OURS: "sensecrypt",
    AHEAD: "sensecrypt+profile=paillier-2048+randomness=ahead",
}
PAPERS = tuple(METHODS)
PAPER_PART, DEFAULT_PART = "budget", "default"  # preset paper normalises over the masks within the budget
WAYS = ("bytes_up", "bytes_down")
STATISTICAL, SYSTEM, BOTH = "statistical", "system", "statistical+system"
CLASSES = 10  # of both data sets
LEARNT = 0.05  # above a constant answer: the least that counts as learning
NORMAL = 0.02  # below the accuracy on IID data: the most that counts as its level
Place = tuple[str, str]  # scenario and data set


def methods_of(part: str) -> dict[str, str]:
    """The methods of a part of a comparison: the paper's under one reading, or our default preset's."""
    if part == DEFAULT_PART:
        return DEFAULTS
    if part == PAPER_PART:
        return METHODS
    return {name: f"{METHODS[name]}+normalise={part}" for name in ("Baseline", "MaskCrypt", "SenseCrypt")}


class Found:
    """The rows of one part, looked up by scenario, data set and method."""

    def __init__(self, rows: Rows, part: str = PAPER_PART) -> None:
        rows = where(rows, part=part)
        self.scenarios, self.datasets = (distinct(rows, key) for key in ("scenario", "dataset"))
        self.places: list[Place] = list(dict.fromkeys((row["scenario"], row["dataset"]) for row in rows))
        self._totals: dict[tuple[Place, str], Mapping[str, Any]] = {}
        self._rounds: dict[tuple[Place, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            key = (row["scenario"], row["dataset"]), row["method"]
            if row["round"] is None:
                self._totals[key] = row
            else:
                self._rounds.setdefault(key, []).append(row)

    def rounds(self, place: Place, method: str) -> list[Mapping[str, Any]]:
        """The rounds of a method, in order."""
        return sorted(self._rounds[place, method], key=lambda row: int(row["round"]))

    def total(self, place: Place, method: str, key: str = "device_seconds") -> Any:
        """A figure over all rounds."""
        return self._totals[place, method][key]

    def sent(self, place: Place, method: str, way: str) -> float:
        """Megabytes per round."""
        return fmean(row[way] for row in self._rounds[place, method]) / 1e6

    def by_time(self, place: Place) -> list[str]:
        """The paper's methods, fastest first."""
        return sorted(PAPERS, key=lambda name: float(self.total(place, name)))

    def by_bytes(self, place: Place) -> list[str]:
        """The paper's methods, fewest bytes first."""
        return sorted(PAPERS, key=lambda name: sum(self.sent(place, name, way) for way in WAYS))


def chance(scenario: str) -> float:
    """The accuracy of a constant answer for a client, whose classes are equally frequent."""
    kind, _, groups = str(SCENARIOS[scenario].settings["partition"]).partition(":")
    if kind != "categories":
        return 1 / CLASSES
    return fmean(1 / len(part) for part in np.array_split(range(CLASSES), int(groups)))
