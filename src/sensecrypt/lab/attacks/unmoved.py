"""Labels from the values of parameters that did not move.

If a pixel is 0 in all of a client's samples, or a unit is inactive for all of them, the gradient of its weights is
exactly 0. Their fixed-point numbers are then among the plain ones, at unknown positions. Public data shows how often
samples of a class leave a parameter unmoved; the attack finds the counts with the largest likelihood.
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
_ALONE, _MOVED = 0.5, 0.1  # Beta prior of "unmoved": most parameters are unmoved by all samples or by hardly any
_PASSES = 60


def same_numbers(values: FloatVector, unplaced: Unplaced) -> tuple[BoolVector, FloatVector]:
    """Whether the fixed-point number of each value is among the plain ones, and the chance that this is a coincidence.

    The chance is how often neighbouring numbers are among them, averaged over values of similar size.
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
    """The observations of some parameters."""

    hit: BoolVector  # whether its initial number is among the plain ones
    chance: FloatVector  # of a hit if it moved
    plain: FloatVector  # chance that it is plain if it did not move
    zeros: IntVector  # per class, the number of public samples that leave it unmoved
    left_alone: list[FloatMatrix]  # per class, [zeros, n]: log of the chance that n samples do so

    def likelihood(self, histograms: FloatMatrix) -> FloatVector:
        """The log-likelihood of each row of whole counts."""
        stays = np.zeros((len(histograms), self.hit.size))
        for label, zeros in enumerate(self.zeros):
            stays += self.left_alone[label][:, histograms[:, label].astype(np.int64)].T[:, zeros]
        stays = np.exp(stays) * self.plain
        hit = stays + (1 - stays) * self.chance
        return np.asarray(np.log(np.where(self.hit, hit, 1 - hit)).sum(axis=1), dtype=np.float64)


def unmoved_counts(observation: Observation, unplaced: Unplaced, statistics: ClassStatistics) -> FloatVector:
    """The class counts that explain best which numbers of `before` are among the plain ones; the prior without any.

    Of a large model it uses always the same coordinates.
    """
    if unplaced.values.size == 0:
        return prior(observation)
    hit, chance = same_numbers(observation.before.astype(np.float64), unplaced)
    never = (statistics.zeros == statistics.samples[:, None]).all(axis=0)
    plain = _in_sight(hit, chance, never & unplaced.possible)
    informative = unplaced.possible & ~never & statistics.zeros.any(axis=0) & (plain > 0.1)
    places = some_places(np.flatnonzero(informative), COORDINATES, derive_rng(0, "unmoved coordinates"))
    if places.size == 0:
        return prior(observation)
    tables = [_left_alone(int(samples), observation.samples) for samples in statistics.samples]
    evidence = _Evidence(hit[places], chance[places], plain[places], statistics.zeros[:, places], tables)
    return climb(observation, evidence.likelihood, passes=_PASSES)


def _in_sight(hit: BoolVector, chance: FloatVector, never: BoolVector) -> FloatVector:
    """How often parameters that no sample moves are found, per part of the model: hidden ones are not found."""
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
    """The log of E[qⁿ] for each number of public samples that leave a parameter unmoved and n = 0 … samples."""
    alone = _ALONE + np.arange(public + 1)[:, None]
    moved = _MOVED + public - np.arange(public + 1)[:, None]
    return np.asarray(betaln(alone + np.arange(samples + 1), moved) - betaln(alone, moved), dtype=np.float64)
