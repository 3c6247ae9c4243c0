"""From an aggregate to the values in it, for whoever holds the secret key."""

from __future__ import annotations

import numpy as np

from sensecrypt import checks
from sensecrypt.crypto.scheme import DecryptionKey, Ints
from sensecrypt.errors import InvalidCiphertext, Rejected
from sensecrypt.protocol.messages import Aggregate
from sensecrypt.protocol.round import Round


def open_aggregate(
    aggregate: Aggregate, round_: Round, secret: DecryptionKey, order: checks.IntVector | None, *, workers: int = 1
) -> Ints:
    """Decrypt the union of the masks, put the plain sums beside it, and undo the order.

    Args:
        aggregate: the sum.
        round_: its round.
        secret: the key.
        order: slot s holds parameter order[s]; None: the natural order.
        workers: processes.
    """
    hidden = aggregate.mask.to_array()
    in_slots = np.empty(round_.size, dtype=np.int64)
    in_slots[~hidden] = aggregate.plain
    if aggregate.mask.blocks:
        try:
            in_slots[hidden] = secret.decrypt(aggregate.ciphertexts, aggregate.mask.count, workers=workers)
        except InvalidCiphertext as error:
            raise Rejected(f"the aggregate does not decrypt: {error.problem}", code="does-not-decrypt") from None
    if order is None:
        return in_slots
    values = np.empty_like(in_slots)
    values[order] = in_slots
    return values
