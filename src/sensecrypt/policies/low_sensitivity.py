"""Encrypts the least sensitive parameters at a given ratio (paper, Appendix H): the worst use of the same effort.

In the prefix layout, too, the choice depends on this client's own sensitivity: it takes the end of the order.
"""

from __future__ import annotations

from sensecrypt.policies.policy import Policy
from sensecrypt.policies.ranked import best_blocks
from sensecrypt.policies.situation import Choice, Situation, asked_for


def choose(situation: Situation) -> Choice:
    """Encrypt the blocks with the lowest sums of this client's sensitivity."""
    return Choice(situation.mask_of(best_blocks(situation, -asked_for("sensitivity", situation.sensitivity))))


POLICY = Policy(choose, needs_gradient=True, uses_ratio=True, ranks_by="sensitivity")
