"""Mutual information between the visible parameters and all parameters (paper, "Privacy Leakage Evaluation", Eq. 3).

I(W; W₋w) in bits, between the weights W and the same weights with the encrypted ones set to zero, both as empirical
distributions over *bins*. The value depends on the estimator, so the estimator is part of the definition:

* `bins` bins of equal width over [min(W, 0), max(W, 0)], so that zero, which replaces an encrypted weight, always has a
  bin;
* a weight on an inner edge belongs to the bin above it, the maximum to the last bin.

The paper does not state the number of bins. 10 is the largest at which its own statements are feasible; preset `paper`
uses it. The default of 20 demands more protection: with a bound of 2.0 bits a newly initialised AlexNet needs 20 %
encrypted (50 bins: 49 %, 256: 70 %). See docs/decisions/0002-mutual-information-bins.md.

It does not bound what the weights reveal about the *training data*. Attacks measure that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput, MaskMismatch
from sensecrypt.types import Mask

DEFAULT_BINS = 20
MAX_BINS = 65_535
_CHUNK = 1 << 16

BinVector = npt.NDArray[np.unsignedinteger[Any]]


def bin_weights(weights: npt.ArrayLike, *, bins: int = DEFAULT_BINS) -> tuple[BinVector, int]:
    """Return the bin of every weight, and the bin of zero."""
    vector = checks.finite_vector("weights", weights)
    count = checks.whole("bins", bins, low=1, high=MAX_BINS)
    low, high = min(vector.min(), 0.0), max(vector.max(), 0.0)
    # Halved, because the width of the range can overflow.
    half_width = high / 2 - low / 2
    if half_width == 0:  # every weight is zero
        return np.zeros(vector.size, dtype=np.uint8), 0
    position = vector / 2
    position -= low / 2
    position /= half_width
    position *= count
    np.minimum(position, count - 1, out=position)
    zero = min(int((-low / 2) / half_width * count), count - 1)
    return position.astype(np.uint8 if count <= 256 else np.uint16), zero


def mutual_information(weights: npt.ArrayLike, mask: Mask | npt.ArrayLike, *, bins: int = DEFAULT_BINS) -> float:
    """Return I(W; W₋w) in bits when the parameters of `mask` (True: encrypted) are hidden.

    Args:
        weights: N numbers.
        mask: a `Mask`, or one bool per parameter.
        bins: number of bins; see the module's documentation.
    """
    binned, zero = bin_weights(weights, bins=bins)
    hidden = mask.to_array() if isinstance(mask, Mask) else np.asarray(mask)
    if hidden.dtype != np.bool_ or hidden.size != binned.size:
        problem = f"has {hidden.size:,} elements of dtype {hidden.dtype}, weights has {binned.size:,}"
        raise MaskMismatch("mask", problem, "pass one bool per weight of the same model")
    counts = np.bincount(binned, minlength=bins)
    encrypted = np.bincount(binned[hidden.ravel()], minlength=bins)
    encrypted[zero] = 0
    looks_zero = counts[zero] + encrypted.sum()
    bits = _unconditional(counts, zero) + xlog2x(encrypted).sum() - xlog2x(looks_zero)
    return max(0.0, float(bits) / binned.size)


def mutual_information_curve(
    weights: npt.ArrayLike, order: npt.ArrayLike, *, bins: int = DEFAULT_BINS
) -> checks.FloatVector:
    """Return I(W; W₋w) after encrypting the first K elements of `order`, for every K = 0 … N.

    Let bin x hold n_x weights, e_x of them encrypted, let z be the bin of zero and M = n_z + Σ_{x≠z} e_x the number of
    weights that *look* zero. Then Eq. 3 becomes

        N·I = Σ_{x≠z} n_x·log(N/n_x) + n_z·log N + Σ_{x≠z} e_x·log e_x − M·log M.

    Encrypting another weight of bin x changes e_x and M by one; a weight of bin z changes nothing. So the curve is one
    running sum over the ranks of the weights within their bins.

    Returns:
        N + 1 numbers. The first is the entropy of the binned weights, the last is 0.
    """
    binned, zero = bin_weights(weights, bins=bins)
    return curve_of_bins(binned[checks.permutation("order", order, binned.size)], zero)


def curve_of_bins(in_order: BinVector, zero: int) -> checks.FloatVector:
    """Return the curve for weights that are already binned and in order.

    It is computed in chunks whose data fit the processor's cache; only the result has size N.
    """
    size = in_order.size
    counts = np.bincount(in_order, minlength=zero + 1)
    constant = _unconditional(counts, zero)
    steps = np.diff(xlog2x(np.arange(counts.max() + 1)))
    encrypted = np.zeros(counts.size, dtype=np.int64)  # per bin, before the chunk
    looks_zero, entropy_gain = counts[zero], 0.0  # M, and the sum of e·log e, before the chunk
    curve = np.empty(size + 1)
    curve[0] = (constant - xlog2x(looks_zero)) / size
    for start in range(0, size, _CHUNK):
        chunk = in_order[start : start + _CHUNK]
        in_chunk = np.bincount(chunk, minlength=counts.size)
        change = steps[_rank_within_group(chunk, in_chunk) + encrypted[chunk]]
        moves = chunk != zero
        change[~moves] = 0.0
        gains, zeros = entropy_gain + np.cumsum(change), looks_zero + np.cumsum(moves)
        curve[start + 1 : start + 1 + chunk.size] = (gains - xlog2x(zeros) + constant) / size
        encrypted += in_chunk
        looks_zero, entropy_gain = zeros[-1], gains[-1]
    curve[-1] = 0.0  # nothing is visible, and rounding must not break a bound of 0
    curve[curve < 0] = 0.0  # rounding
    return curve


def curve_of_blocks(in_slots: BinVector, zero: int, ranking: checks.IntVector, block: int) -> checks.FloatVector:
    """Return I(W; W₋w) after encrypting the first K = 0 … n of n blocks, most important first.

    The only work per weight is counting the weights of each bin in each block.

    Args:
        in_slots: the bin of the weight in each slot.
        zero: the bin of zero.
        ranking: the blocks, most important first.
        block: slots per block.
    """
    counts = np.bincount(in_slots, minlength=zero + 1)
    encrypted, constant = np.zeros(counts.size, dtype=np.int64), _unconditional(counts, zero)
    curve = np.empty(ranking.size + 1)
    curve[0] = (constant - xlog2x(counts[zero])) / in_slots.size
    blocks = np.full((ranking.size, block), zero, dtype=in_slots.dtype)  # a weight of that bin changes nothing
    blocks.reshape(-1)[: in_slots.size] = in_slots
    at_once = max(1, _CHUNK // max(block, counts.size))
    for start in range(0, ranking.size, at_once):
        chosen = blocks[ranking[start : start + at_once]]
        cells = chosen + counts.size * np.arange(len(chosen))[:, None]
        added = np.bincount(cells.ravel(), minlength=len(chosen) * counts.size).reshape(len(chosen), -1)
        added[:, zero] = 0
        totals = encrypted + np.cumsum(added, axis=0)
        encrypted = totals[-1]
        bits = constant + xlog2x(totals).sum(axis=1) - xlog2x(counts[zero] + totals.sum(axis=1))
        curve[start + 1 : start + 1 + len(chosen)] = bits / in_slots.size
    curve[-1] = 0.0  # nothing is visible, and rounding must not break a bound of 0
    return np.maximum(curve, 0.0)  # rounding


def _rank_within_group(groups: BinVector, counts: checks.IntVector) -> checks.IntVector:
    """Return for each element the number of earlier elements of its group, in linear time (radix sort)."""
    by_group = np.argsort(groups, kind="stable")
    rank = np.empty(groups.size, dtype=np.int64)
    starts = np.cumsum(counts) - counts
    rank[by_group] = np.arange(groups.size) - np.repeat(starts, counts)
    return rank


def _unconditional(counts: checks.IntVector, zero: int) -> float:
    """Return Σ_{x≠z} n_x·log(N/n_x) + n_z·log N."""
    total = int(counts.sum())
    others = counts.copy()
    others[zero] = 0
    return float(total * np.log2(total) - xlog2x(others).sum())


def xlog2x(count: npt.NDArray[np.int64]) -> checks.FloatVector:
    """Return x·log2(x), with 0·log 0 = 0."""
    value = count.astype(np.float64)
    result: checks.FloatVector = value * np.log2(np.maximum(value, 1.0))
    return result


def leakage_allowance(counts: checks.IntVector, zero: int, bound: float) -> float:
    """Return the largest Σ_{x≠z} e_x·log e_x − M·log M for which I is at most `bound` bits."""
    size = int(counts.sum())
    return size * bound - _unconditional(counts, zero) + 1e-9  # tolerance for rounding of long sums


def check_bound(max_mi: float | None, weights: npt.ArrayLike | None) -> float | None:
    """Return the validated leakage bound η; it needs `weights`."""
    if max_mi is None:
        return None
    if weights is None:
        raise InvalidInput("weights", "is missing", "pass the weights: max_mi bounds their leakage")
    return checks.number("max_mi", max_mi, low=0.0)
