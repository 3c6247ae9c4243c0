"""What the methods that encrypt the blocks of the highest scores have in common."""

from __future__ import annotations

import numpy as np

from sensecrypt import checks
from sensecrypt.policies.situation import Situation


def best_blocks(situation: Situation, scores: checks.FloatVector) -> checks.IntVector:
    """As many blocks as the ratio allows, the highest sums of scores first.

    Equal sums go by the lower number: the choice must be the same on every machine.

    Args:
        situation: cuts the blocks and says how many.
        scores: one a parameter, of any sign.
    """
    return np.argsort(-situation.block_sums(scores), kind="stable")[: situation.ratio_blocks]
