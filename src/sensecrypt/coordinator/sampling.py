"""Which members of a cluster take part in a round."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sensecrypt.errors import InvalidInput


def sample_members(members: Sequence[int], sample: float, least: int, *, rng: np.random.Generator) -> list[int]:
    """So many of the members, in ascending order.

    Args:
        members: of a cluster.
        sample: their share that takes part, if below 1; else how many; 0: all.
        least: never fewer than these, if there are as many.
        rng: draws.
    """
    if sample == 0:
        return list(members)
    if sample >= 1 and not float(sample).is_integer():
        raise InvalidInput("sample", f"is {sample:g}", "give a share below 1, or a whole number of clients")
    many = math.ceil(sample * len(members)) if sample < 1 else int(sample)
    many = min(len(members), max(many, least))
    return sorted(int(client) for client in rng.choice(np.asarray(members), size=many, replace=False))
