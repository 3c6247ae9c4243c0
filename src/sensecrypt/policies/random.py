"""Encrypts random parameters at a given ratio (paper, Appendix H): the baseline that uses no knowledge."""

from __future__ import annotations

from sensecrypt.policies.policy import Policy
from sensecrypt.policies.situation import Choice, Situation


def choose(situation: Situation) -> Choice:
    """Encrypt random blocks; each round draws new ones."""
    return Choice(situation.mask_of(situation.rng.permutation(situation.blocks)[: situation.ratio_blocks]))


POLICY = Policy(choose, uses_ratio=True)
