"""Clients about to decide, and a round with one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sensecrypt.policies import Policy
from sensecrypt.policies.situation import Choice, Situation


def situation(size: int = 1000, block: int = 1, *, ordered: bool = False, seed: int = 0, **changes: Any) -> Situation:
    """A client with heavy-tailed gradients; all its arrays are read-only."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 0.1, size).astype(np.float32)
    gradient = rng.standard_t(2, size).astype(np.float32)
    sensitivity = np.abs(weights.astype(np.float64) * gradient)
    ranking = np.argsort(-sensitivity, kind="stable")
    standard = {
        "weights": weights,
        "gradient": gradient,
        "sensitivity": sensitivity,
        "budget": 0.3,
        "ratio": 0.3,
        "block": block,
        "order": ranking if ordered else None,
        "ranking": None if ordered else ranking,
        "exposed": rng.normal(0, 0.1, size).astype(np.float32),
        "rng": np.random.default_rng(seed),
        "B": 2.0,
        "C": 0.5,
        "max_mi": None,
        "objective": "protect",
        "on_infeasible": "budget",
    }
    made = Situation(**(standard | changes))
    for value in vars(made).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return made


def decide(policy: Policy, client: Situation) -> Choice:
    """What a client that is alone in its round encrypts."""
    if policy.propose is not None:
        assert policy.agree is not None
        proposal = policy.propose(client)
        client = replace(client, agreed=policy.agree([proposal], client.blocks, client.ratio_blocks))
    return policy.choose(client)
