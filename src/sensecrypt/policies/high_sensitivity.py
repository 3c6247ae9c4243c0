"""Encrypts the most sensitive parameters at a given ratio (paper, Appendix H), without budgets and bounds."""

from __future__ import annotations

from sensecrypt.policies.policy import Policy
from sensecrypt.policies.ranked import best_blocks
from sensecrypt.policies.situation import Choice, Situation, asked_for


def choose(situation: Situation) -> Choice:
    """Encrypt the blocks with the highest sums of this client's sensitivity."""
    return Choice(situation.mask_of(best_blocks(situation, asked_for("sensitivity", situation.sensitivity))))


POLICY = Policy(choose, needs_gradient=True, uses_ratio=True, ranks_by="sensitivity")
