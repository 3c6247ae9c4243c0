"""FedAvg with every parameter encrypted: the paper's Baseline."""

from __future__ import annotations

import numpy as np

from sensecrypt.policies.policy import Policy
from sensecrypt.policies.situation import Choice, Situation


def choose(situation: Situation) -> Choice:
    """Encrypt every block."""
    return Choice(situation.mask(np.ones(situation.blocks, dtype=bool)))


POLICY = Policy(choose)
