"""Parameters at random, at a given ratio (paper, Appendix H): what the same effort protects without any knowledge."""

from __future__ import annotations

from sensecrypt.policies.policy import Policy
from sensecrypt.policies.situation import Choice, Situation


def choose(situation: Situation) -> Choice:
    """Blocks in the order of a shuffle; a later round draws others."""
    return Choice(situation.mask_of(situation.rng.permutation(situation.blocks)[: situation.ratio_blocks]))


POLICY = Policy(choose, uses_ratio=True)
