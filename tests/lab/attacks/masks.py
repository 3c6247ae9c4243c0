"""Masks by the strategies of Appendix H."""

from __future__ import annotations

import numpy as np

from sensecrypt.algo.ordering import descending_order
from sensecrypt.rng import derive_rng


def hide_by(strategy, client, share, *, seed=0, head=None):
    """`high` or `low` sensitivity first, `random`, or `classifier`: the whole last layer, whatever `share`."""
    order, _ = descending_order(client.sensitivity)
    many = round(share * order.size)
    hidden = np.zeros(order.size, dtype=bool)
    if strategy == "classifier":
        hidden[np.append(head.weight, head.bias)] = True
    elif strategy == "random":
        hidden[derive_rng(seed, "test").choice(order.size, many, replace=False)] = True
    else:
        hidden[{"high": order, "low": order[::-1]}[strategy][:many]] = True
    return hidden
