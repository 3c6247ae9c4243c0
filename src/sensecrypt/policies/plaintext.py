"""FedAvg without encryption."""

from __future__ import annotations

import numpy as np

from sensecrypt.policies.policy import Policy
from sensecrypt.policies.situation import Choice, Situation


def choose(situation: Situation) -> Choice:
    """Encrypt no block."""
    return Choice(situation.mask(np.zeros(situation.blocks, dtype=bool)))


POLICY = Policy(choose, encrypts=False)
