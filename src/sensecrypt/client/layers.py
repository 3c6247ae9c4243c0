"""How much of each of a model's layers a mask encrypts: for the owner of the run, never for its aggregator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sensecrypt.types import Mask


def encrypted_by_layer(mask: Mask, layers: Mapping[str, int]) -> dict[str, list[int]]:
    """For each layer how many of its parameters are encrypted, and how many it has.

    Args:
        mask: what is encrypted.
        layers: names and sizes, in the order of the vector; together as long as the mask.
    """
    ends = np.cumsum(list(layers.values()))
    parts = np.split(mask.to_array(), ends[:-1])
    return {name: [int(np.count_nonzero(part)), part.size] for name, part in zip(layers, parts, strict=True)}
