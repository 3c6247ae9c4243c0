"""Ranks blocks by the sums of their parameters' scores, for the methods that encrypt the best blocks."""

from __future__ import annotations

import numpy as np

from sensecrypt import checks
from sensecrypt.policies.situation import Situation


def best_blocks(situation: Situation, scores: checks.FloatVector) -> checks.IntVector:
    """Return the blocks with the highest sums of scores, best first, as many as the ratio allows.

    Ties go to the lower block number, so that the choice is the same on every machine.

    Args:
        situation: defines the blocks and the ratio.
        scores: one number per parameter, of any sign.
    """
    return np.argsort(-situation.block_sums(scores), kind="stable")[: situation.ratio_blocks]
