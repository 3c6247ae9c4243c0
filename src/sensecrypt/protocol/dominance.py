"""How much of a sum is one client's, once the clients that collude have subtracted their own parts."""

from __future__ import annotations

from collections.abc import Mapping


def honest_share(weights: Mapping[int, float], client: int, colluders: int) -> float:
    """The client's weight over what is left of the total without the `colluders` largest others; 1: nobody hides it.

    Args:
        weights: of everybody in the sum, positive.
        client: one of them.
        colluders: how many of the others may give their values away.
    """
    others = sorted(weight for other, weight in weights.items() if other != client)
    left = others[: max(0, len(others) - colluders)]
    return weights[client] / (weights[client] + sum(left))
