"""Assigns plain values to parameters, where the order of the slots is secret.

Class counts predict how far each parameter moved, so its value is near its start minus this move. They also predict the
rank of its sensitivity, and slots are in descending order of sensitivity. Each near pair of a parameter and a slot gets
a likelihood from both. It is normalised over the slots of a parameter and over the parameters of a slot; pairs above
`SURE` are accepted. Clients of a cluster share their slots, and their mean is nearer to the prediction than one value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from sensecrypt.algo.ordering import descending_order
from sensecrypt.checks import IntVector
from sensecrypt.lab.attacks.classstats import ClassStatistics
from sensecrypt.lab.attacks.observation import FloatVector, Observation, Unplaced

SURE = 0.9
_REACH = 3.0  # standard deviations
_CROWD = 150  # slots within reach of a parameter: with more, no pair would be accepted
_STRAY = 0.002  # weight of ranks whose prediction is entirely wrong
_ROUNDS = 4
_BINS = 50


@dataclass(frozen=True, eq=False)
class Placement:
    """The accepted pairs."""

    parameters: IntVector  # positions in the model
    slots: IntVector  # the plain value of each
    spread: float  # median error of the ranks, as a share of the parameters


def place(
    observation: Observation,
    unplaced: Unplaced,
    statistics: ClassStatistics,
    shares: FloatVector,
    *,
    doubt: float,
    spread: float,
) -> Placement:
    """Pair parameters and slots.

    Args:
        observation: its `before` is where the values started.
        unplaced: the plain values.
        statistics: of public samples.
        shares: the present estimate of each class's share.
        doubt: the part of the variance between classes that allows for errors of `shares`.
        spread: standard deviation of ranks, as a share of the parameters.
    """
    candidates = np.flatnonzero(unplaced.possible)
    start = observation.before[candidates].astype(np.float64)
    means, mean = statistics.mean[:, candidates], shares @ statistics.mean[:, candidates]
    within = shares @ statistics.variance[:, candidates]
    clients = 1 + len(unplaced.others)
    seen = np.vstack([unplaced.values, unplaced.others]).mean(axis=0)
    variance = within / (observation.samples * clients) + doubt * (shares @ (means - mean) ** 2)
    rounding = unplaced.step / np.sqrt(12 * clients)
    deviation = np.sqrt(unplaced.scale**2 * variance + rounding**2)
    centre = start - unplaced.scale * mean
    rank = np.empty(candidates.size)
    rank[descending_order(np.abs(start) * _mean_size(mean, np.sqrt(within / observation.samples)))[0]] = np.arange(
        candidates.size
    )
    width = max(spread, 0.01) * candidates.size
    slot_rank = candidates.size - seen.size + np.arange(seen.size)

    by_value = np.argsort(seen, kind="stable")
    reach = _REACH * deviation + unplaced.step
    low = np.searchsorted(seen[by_value], centre - reach)
    many = np.searchsorted(seen[by_value], centre + reach) - low
    crowded = many > _CROWD
    many = np.where(crowded, 0, many)
    who = np.repeat(np.arange(candidates.size), many)
    slot = by_value[np.repeat(low - np.cumsum(many) + many, many) + np.arange(who.size)]
    off = (rank[who] - slot_rank[slot]) / width
    likely = np.exp(-0.5 * ((seen[slot] - centre[who]) / deviation[who]) ** 2) / deviation[who]
    likely *= (1 - _STRAY) * np.exp(-0.5 * off**2) + _STRAY
    others = _crowd(centre[crowded], rank[crowded], seen, slot_rank, width, candidates.size)
    sure = _normalised(likely, who, slot, others, candidates.size) > SURE
    kept = np.median(np.abs(off[sure])) * width / candidates.size if sure.any() else spread
    return Placement(candidates[who[sure]], slot[sure], float(kept))


def _mean_size(mean: FloatVector, deviation: FloatVector) -> FloatVector:
    """E|g| of a normal g, by which an order by mean sensitivity ranks."""
    ratio = np.clip(mean / np.maximum(deviation, 1e-30), -37, 37)
    size = deviation * np.sqrt(2 / np.pi) * np.exp(-0.5 * ratio**2) + mean * erf(ratio / np.sqrt(2))
    return np.asarray(np.abs(size), dtype=np.float64)


def _crowd(
    centre: FloatVector, rank: FloatVector, seen: FloatVector, slot_rank: IntVector, width: float, size: int
) -> FloatVector:
    """The likelihood that a slot belongs to a parameter with too many slots within reach, by their density."""
    if centre.size == 0:
        return np.full(seen.size, 1e-9)
    values, edges = np.histogram(centre, bins=4 * _BINS)
    density = np.interp(seen, (edges[1:] + edges[:-1]) / 2, values / np.diff(edges))
    ranks, ends = np.histogram(rank, bins=_BINS, range=(0, size))
    near = np.interp(slot_rank, (ends[1:] + ends[:-1]) / 2, ranks / (centre.size * np.diff(ends)))
    there = np.minimum(1.0, width * np.sqrt(2 * np.pi) * near + _STRAY)
    return np.asarray(density * there * np.sqrt(2 * np.pi) + 1e-9, dtype=np.float64)


def _normalised(likely: FloatVector, who: IntVector, slot: IntVector, others: FloatVector, size: int) -> FloatVector:
    """Likelihoods normalised so that every slot has one parameter, and every parameter at most one slot."""
    rows: FloatVector = np.ones(size)
    columns: FloatVector = np.ones(others.size)
    for _ in range(_ROUNDS):
        columns = 1 / (np.bincount(slot, likely * rows[who], minlength=others.size) + others)
        rows = 1 / (np.bincount(who, likely * columns[slot], minlength=size) + 0.1)
    return np.asarray(likely * rows[who] * columns[slot], dtype=np.float64)
