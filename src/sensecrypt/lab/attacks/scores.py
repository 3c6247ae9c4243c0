"""How much of a client's labels an attack found. Only here does the truth meet the guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.ilrg import FloatVector, IntVector, counts


@dataclass(frozen=True)
class LabelScores:
    """One attack on one client, over all classes, absent ones included.

    Attributes:
        leacc: share of the classes whose presence or absence was told right (LeAcc).
        lnacc: share of the classes whose count was told exactly (LnAcc).
        irec: share of the samples whose label is in the guess (IRec).
        distance: total variation between the guessed and the true histogram, 0 equal, 1 disjoint. Under FedAvg exact
            counts are out of reach, and this is the figure to look at.
        top1: whether the most frequent class was found; where the guess has several, the chance that one of them,
            drawn at random, is right.
    """

    leacc: float
    lnacc: float
    irec: float
    distance: float
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
        leacc=label_existence(whole, true),
        lnacc=label_number(whole, true),
        irec=instance_recall(whole, true),
        distance=total_variation(guess, true),
        top1=top_one(guess, true),
    )


def label_existence(guess: IntVector, truth: IntVector) -> float:
    """LeAcc: mean of 1[(n̂_c > 0) = (n_c > 0)]."""
    return float(np.mean((guess > 0) == (truth > 0)))


def label_number(guess: IntVector, truth: IntVector) -> float:
    """LnAcc: mean of 1[n̂_c = n_c]."""
    return float(np.mean(guess == truth))


def instance_recall(guess: IntVector, truth: IntVector) -> float:
    """IRec: Σ min(n̂_c, n_c) / K."""
    return float(np.minimum(guess, truth).sum() / truth.sum())


def total_variation(guess: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Half the sum of absolute differences of two histograms, each scaled to sum to 1; below 0 counts as 0."""
    return float(0.5 * np.abs(_shares(guess) - _shares(truth)).sum())


def top_one(guess: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Whether the largest of `guess` is a largest of `truth`; several largest guesses share the credit."""
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
        raise InvalidInput("values", "is empty", "pass one number a seed")
    mean = float(np.mean(values))
    if seeds == 1:
        return Interval(mean, float("nan"))
    return Interval(mean, float(stats.t.ppf(0.975, seeds - 1) * np.std(values, ddof=1) / np.sqrt(seeds)))
