"""Scores of attacks on labels: the only place that compares guesses with the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.ilrg import FloatVector, counts


@dataclass(frozen=True)
class LabelScores:
    """One attack on one client, over all classes, absent ones included."""

    leacc: float  # LeAcc, mean of 1[(n̂_c > 0) = (n_c > 0)]
    lnacc: float  # LnAcc, mean of 1[n̂_c = n_c]
    irec: float  # IRec, Σ min(n̂_c, n_c) / K
    # total variation between guess and truth: 0 equal, 1 disjoint; the figure for FedAvg, where exact counts are rare
    distance: float
    # whether the most frequent class was found; of several such guesses, the share that is right
    top1: float


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and half the width of its 95 % confidence interval; NaN with a single seed."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half:.3f}"


def score_labels(raw: npt.ArrayLike, truth: npt.ArrayLike) -> LabelScores:
    """Compare the raw counts of an attack with the true ones, whose sum is K."""
    guess, true = checks.finite_vector("raw", raw), np.asarray(truth, dtype=np.int64)
    checks.same_length("raw", guess, true.size, "the true histogram")
    whole = counts(guess, int(true.sum()))
    return LabelScores(
        leacc=float(np.mean((whole > 0) == (true > 0))),
        lnacc=float(np.mean(whole == true)),
        irec=float(np.minimum(whole, true).sum() / true.sum()),
        distance=total_variation(guess, true),
        top1=top_one(guess, true),
    )


def total_variation(guess: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Half the sum of absolute differences of two histograms scaled to sum to 1; negative values count as 0."""
    return float(0.5 * np.abs(_shares(guess) - _shares(truth)).sum())


def top_one(guess: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """The share of the largest values of `guess` that are largest in `truth`."""
    first, second = np.asarray(guess, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    return float(np.mean(second[first == first.max()] == second.max()))


def _shares(histogram: npt.ArrayLike) -> FloatVector:
    values = np.maximum(np.asarray(histogram, dtype=np.float64), 0.0)
    total = values.sum()
    return values / total if total > 0 else np.full(values.size, 1 / values.size)


def with_interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % half-width over seeds, by Student's t."""
    seeds = len(values)
    if seeds == 0:
        raise InvalidInput("values", "is empty", "pass one number per seed")
    mean = float(np.mean(values))
    if seeds == 1:
        return Interval(mean, float("nan"))
    return Interval(mean, float(stats.t.ppf(0.975, seeds - 1) * np.std(values, ddof=1) / np.sqrt(seeds)))
