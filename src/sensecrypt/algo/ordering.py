"""A descending order of non-negative numbers that is the same on every machine."""

from __future__ import annotations

import numpy as np

from sensecrypt import checks


def descending_order(values: checks.FloatVector) -> tuple[checks.IntVector, checks.FloatVector]:
    """Return the indices of `values` from the largest to the smallest, ties by index, and the values in that order.

    The bit patterns of non-negative floats sort like the numbers. So the complemented pattern, its last bits replaced
    by the index, is an integer, and sorting these integers (which NumPy vectorises) gives the order four times faster
    than a stable argsort. Numbers that differ only in the replaced bits are sorted again afterwards.

    Args:
        values: N finite, non-negative numbers.
    """
    size = values.size
    index_bits = np.uint64((1 << max(1, (size - 1).bit_length())) - 1)
    pattern = np.ascontiguousarray(values + 0.0).view(np.uint64)  # + 0.0 turns −0.0 into 0.0
    key = ~pattern
    key &= ~index_bits
    key |= np.arange(size, dtype=np.uint64)
    key.sort()
    order = (key & index_bits).view(np.int64)
    in_order = pattern[order]
    misplaced = np.flatnonzero(in_order[1:] > in_order[:-1])
    if misplaced.size:
        # Sort the runs of equal keys with a misplaced pair again: they are few and short.
        starts = np.concatenate([[0], np.flatnonzero((key[1:] ^ key[:-1]) > index_bits) + 1, [size]])
        runs = np.unique(np.searchsorted(starts, misplaced, side="right") - 1)
        lengths = starts[runs + 1] - starts[runs]
        run = np.repeat(runs, lengths)
        place = np.repeat(starts[runs + 1] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
        repaired = np.lexsort((order[place], ~in_order[place], run))
        order[place], in_order[place] = order[place][repaired], in_order[place][repaired]
    return order, in_order.view(np.float64)
