"""How much of a sum is one client's, once the clients that collude have subtracted their own parts."""

from __future__ import annotations

from collections.abc import Mapping

LARGEST_SQUARE = 0.9  # where clients may collude: √(1 − 0.9) is the least relative error of reading one from the sum


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


def honest_square(weights: Mapping[int, float], client: int, colluders: int) -> float:
    """The same of squares of weights: many small and independent updates average out, and hide a large one no more.

    √(1 − it) is the relative error of reading the client's update from the sum, if updates are equally long.
    """
    return honest_share({each: weight**2 for each, weight in weights.items()}, client, colluders)
