"""Encodes a client's update and weight as the vector to protect, and decodes the weighted mean from their sum.

A client with n examples and update Δ sends c·Δ and c, where c is n divided by the largest number that counts. The sums
give the weighted mean of the contributors: Σ c·Δ / Σ c. So weights need not be known before training, the aggregator
sets none, and the mean is exact without a client that is missing.

A slot of 32 bits is too narrow for that: c may be 10^-5, and the bound on Δ is wide. So each number is sent in two
parts: rounded to a step of the round's fixed-point format, and the rounding error in steps. The rounded numbers are the
half that is encrypted. The rounding errors are blinded, which costs no ciphertext.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sensecrypt import checks
from sensecrypt.algo.clipping import clip_update
from sensecrypt.checks import FloatVector
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.protocol.protection import model_format
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import ReleasedSum

MOST_EXAMPLES = 2**20  # a client with more examples counts as one with this number
_FULL = 64.0  # the value in its slot of an update as long as the bound, or of the largest weight
_WIDE = 64.0  # the bound on updates is this times the norm of the model, if none is given
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Terms:
    """What is equal for all members of a round.

    Attributes:
        bound: on the L2 norm of every update.
        least: a client with fewer examples counts as one with this number.
        most: a client with more examples counts as one with this number.
    """

    bound: float
    least: float = 0.0
    most: float = float(MOST_EXAMPLES)

    def __post_init__(self) -> None:
        """Refuse bounds outside of their range."""
        checks.number("bound", self.bound, low=0.0, high=1e12, open_low=True)
        checks.number("most", self.most, low=0.0, high=float(MOST_EXAMPLES), open_low=True)
        checks.number("least", self.least, low=0.0, high=self.most)

    def weight(self, examples: float) -> float:
        """c, from 0 to 1."""
        return self.counted(examples) / self.most

    def counted(self, examples: float) -> float:
        """The number of examples that count for a client with so many."""
        return min(max(examples, self.least), self.most)

    @property
    def text(self) -> str:
        """An exact representation, for a hash."""
        return f"{self.bound.hex()} {self.least.hex()} {self.most.hex()}"


def wide_bound(start: FloatVector) -> float:
    """A bound that honest training does not reach: 64 times the norm of the model, at least 64.

    It only keeps encoding from failing. Against poisoning, pass a smaller bound.
    """
    return float(f"{_WIDE * max(1.0, float(np.linalg.norm(start))):.6g}")


def size_of(parameters: int) -> int:
    """The length of the vector to protect: every parameter and the weight, in two parts."""
    return 2 * (parameters + 1)


def clip_of(parameters: int) -> float:
    """The bound on the L2 norm of the vector to protect."""
    return math.sqrt(2 * _FULL**2 + (parameters + 1) / 4)


def encode(update: FloatVector, examples: float, terms: Terms, round_: Round, client: int) -> tuple[FloatVector, bool]:
    """The vector to protect, and whether the update was clipped."""
    bounded, clipped = clip_update(update, norm=terms.bound, largest=terms.bound)
    weight = terms.weight(examples)
    values = _FULL * weight * np.append(bounded / terms.bound, 1.0)
    step = round_.share(client) * 2.0 ** model_format(round_).frac_bits
    exact = values * step
    first = np.rint(exact)
    return np.concatenate([first / step, exact - first]), clipped


def decode(released: ReleasedSum, terms: Terms, round_: Round) -> tuple[FloatVector, float]:
    """The weighted mean of the contributors' updates, and the sum of their examples; `Rejected` if out of bounds."""
    if len(set(round_.weights.values())) != 1:
        raise InvalidInput("round", "has members with different shares", "register equal ones")
    form = model_format(round_)
    both = form.decode(released.values, released.weight)
    half, share = round_.size // 2, next(iter(round_.weights.values()))
    values = both[:half] + both[half:] / (share * 2.0**form.frac_bits)
    weight = float(values[-1]) / _FULL
    if not terms.weight(0.0) * (1 - _ROUNDING) <= weight <= 1 + _ROUNDING or weight <= 0:
        raise Rejected("the sum of weights is not one that these clients can have")
    mean = values[:-1] * (terms.bound / _FULL) / weight
    if not float(np.linalg.norm(mean)) <= terms.bound * (1 + _ROUNDING):
        raise Rejected("the mean update is longer than the bound on each client's")
    return mean, weight * terms.most * len(released.contributors)
