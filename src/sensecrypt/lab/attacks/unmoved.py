"""Labels from which parameters did not move at all, told by values alone.

A pixel that is 0 in all of a client's samples, or a unit that none of them wakes, leaves weights exactly where they
were, so that their fixed-point numbers are among the plain ones, wherever those are. Public data tells how often
samples of a class leave a parameter alone; counts are those that make the hits and misses likeliest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from sensecrypt.checks import IntVector
from sensecrypt.lab.attacks.classstats import ClassStatistics
from sensecrypt.lab.attacks.climbing import climb
from sensecrypt.lab.attacks.fills import prior
from sensecrypt.lab.attacks.ilrg import FloatMatrix
from sensecrypt.lab.attacks.observation import FloatVector, Observation, Unplaced
from sensecrypt.lab.attacks.public import some_places
from sensecrypt.rng import derive_rng
from sensecrypt.types import BoolVector

COORDINATES = 2_000
_CHUNKS = 64
_SHIFTS = (3, 5, 7, 11, 13, 17, 19, 23)
_SMOOTH = 201
_ALONE, _MOVED = 0.5, 0.1  # Beta prior of "leaves it alone": most parameters are left alone always or hardly ever
_PASSES = 60


def same_numbers(values: FloatVector, unplaced: Unplaced) -> tuple[BoolVector, FloatVector]:
    """Whether the fixed-point number of each value is among the plain ones, and how often that is by chance.

    Chance is what numbers a few steps beside have, averaged over values of like size.
    """
    numbers = np.rint(values / unplaced.step).astype(np.int64)
    plain = np.unique(np.rint(unplaced.values / unplaced.step).astype(np.int64))
    beside = np.mean([np.isin(numbers + shift, plain) for step in _SHIFTS for shift in (step, -step)], axis=0)
    by_size = np.argsort(numbers, kind="stable")
    half = _SMOOTH // 2
    chance = np.empty(values.size)
    chance[by_size] = np.convolve(np.pad(beside[by_size], half, mode="edge"), np.full(_SMOOTH, 1 / _SMOOTH), "valid")
    return np.isin(numbers, plain), np.clip(chance, 1e-3, 1 - 1e-3)


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What was seen of some parameters.

    Attributes:
        hit: whether the number it had is still there.
        chance: that of a hit where it moved.
        plain: chance that it is in sight at all, where it did not move.
        zeros: for each class, how many public samples leave it alone.
        left_alone: for each class, [zeros, n]: logarithm of the chance that n samples do.
    """

    hit: BoolVector
    chance: FloatVector
    plain: FloatVector
    zeros: IntVector
    left_alone: list[FloatMatrix]

    def likelihood(self, histograms: FloatMatrix) -> FloatVector:
        """Logarithm, for each row of whole counts."""
        stays = np.zeros((len(histograms), self.hit.size))
        for label, zeros in enumerate(self.zeros):
            stays += self.left_alone[label][:, histograms[:, label].astype(np.int64)].T[:, zeros]
        stays = np.exp(stays) * self.plain
        hit = stays + (1 - stays) * self.chance
        return np.asarray(np.log(np.where(self.hit, hit, 1 - hit)).sum(axis=1), dtype=np.float64)


def unmoved_counts(
    observation: Observation, unplaced: Unplaced, statistics: ClassStatistics, *, rng: np.random.Generator | None = None
) -> FloatVector:
    """Class counts that explain best which numbers of `before` are still there; the prior if nothing tells.

    Args:
        observation: whose `before` is compared.
        unplaced: the client's plain values.
        statistics: of public samples.
        rng: which coordinates of a large model to look at; None: always the same.
    """
    if unplaced.values.size == 0:
        return prior(observation)
    hit, chance = same_numbers(observation.before.astype(np.float64), unplaced)
    never = (statistics.zeros == statistics.samples[:, None]).all(axis=0)
    plain = _in_sight(hit, chance, never & unplaced.possible)
    telling = unplaced.possible & ~never & statistics.zeros.any(axis=0) & (plain > 0.1)
    generator = derive_rng(0, "unmoved coordinates") if rng is None else rng
    places = some_places(np.flatnonzero(telling), COORDINATES, generator)
    if places.size == 0:
        return prior(observation)
    tables = [_left_alone(int(samples), observation.samples) for samples in statistics.samples]
    evidence = _Evidence(hit[places], chance[places], plain[places], statistics.zeros[:, places], tables)
    return climb(observation, evidence.likelihood, passes=_PASSES)


def _in_sight(hit: BoolVector, chance: FloatVector, never: BoolVector) -> FloatVector:
    """How often parameters that no sample moves are found, along the model: where a prefix hides them they are not."""
    chunks = np.arange(hit.size) * _CHUNKS // hit.size
    found = np.ones(_CHUNKS)
    for chunk in range(_CHUNKS):
        here = never & (chunks == chunk)
        here = here if np.count_nonzero(here) >= 20 else never
        if here.any():
            by_chance = float(chance[here].mean())
            found[chunk] = (float(hit[here].mean()) - by_chance) / (1 - by_chance)
    return np.asarray(np.clip(found, 0.0, 0.995)[chunks], dtype=np.float64)


def _left_alone(public: int, samples: int) -> FloatMatrix:
    """The logarithm of E[qⁿ] for each number of public samples that leave a parameter alone and n = 0 … samples."""
    alone = _ALONE + np.arange(public + 1)[:, None]
    moved = _MOVED + public - np.arange(public + 1)[:, None]
    return np.asarray(betaln(alone + np.arange(samples + 1), moved) - betaln(alone, moved), dtype=np.float64)
