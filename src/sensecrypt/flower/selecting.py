"""Selects the blocks that a round encrypts: those with the largest |w·Δw| of the last released mean update.

The update stands for the gradient. Sensitivities come from a released sum, so the selection reveals nothing that the
aggregator of such an app does not know already. The first round encrypts all blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sensecrypt import checks
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.checks import FloatVector
from sensecrypt.errors import InvalidInput, MaskMismatch, Rejected
from sensecrypt.flower.arrays import Arrays, Layout
from sensecrypt.protocol.round import Round
from sensecrypt.types import BoolVector, Mask

Hook = Callable[[Arrays, Arrays], Arrays]  # from the model and its mean update to one sensitivity per parameter


def upper_blocks(round_: Round) -> int:
    """The number of blocks of the half that can be encrypted."""
    return -(-(round_.size // 2) // round_.block)


def whole(round_: Round) -> BoolVector:
    """The flags that encrypt all blocks but those of the rounding errors."""
    return np.arange(round_.blocks) < upper_blocks(round_)


def most_sensitive(gains: FloatVector, share: float, round_: Round) -> BoolVector:
    """Flags of that share of the blocks with the largest sums of sensitivities; the weights' block is among them."""
    upper = upper_blocks(round_)
    sums = np.add.reduceat(np.append(gains, 0.0), np.arange(0, round_.size // 2, round_.block))
    sums[-1] = math.inf
    chosen = np.argsort(-sums, kind="stable")[: max(1, math.ceil(share * upper))]
    flags = np.zeros(round_.blocks, dtype=bool)
    flags[chosen] = share > 0
    return flags


def sensitivities(start: FloatVector, mean: FloatVector, layout: Layout, hook: Hook | None) -> FloatVector:
    """One sensitivity per parameter, at least 0."""
    if hook is None:
        return sensitivity(start, mean).astype(np.float64)
    given = hook(_arrays(start, layout), _arrays(mean, layout))
    if set(given) != set(layout.keys):
        raise InvalidInput("sensitivity", "returned keys that are not the model's", "return one array per key")
    vector = checks.finite_vector("sensitivity", layout.vector(given))
    if vector.size != layout.size or vector.min() < 0:
        fix = "return one number of at least 0 per parameter"
        raise InvalidInput("sensitivity", "returned other shapes, or negative numbers", fix)
    return vector


def _arrays(vector: FloatVector, layout: Layout) -> Arrays:
    arrays, at = {}, 0
    for key, shape in zip(layout.keys, layout.shapes, strict=True):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[key] = vector[at : at + count].reshape(shape)
        at += count
    return arrays


def read_mask(bits: bytes, round_: Round) -> Mask:
    """The mask of the ServerApp's instructions, or `Rejected`."""
    try:
        return Mask.from_bits(bits, size=round_.size, block=round_.block)
    except MaskMismatch as error:
        raise Rejected(f"the ServerApp's mask is of another model: {error.problem}") from None
