"""From an aggregate to the values in it, for whoever holds the secret key."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sensecrypt import checks
from sensecrypt.crypto.scheme import DecryptionKey, Ints
from sensecrypt.errors import InvalidCiphertext
from sensecrypt.protocol.blinding import Blinding, sum_of, wrap
from sensecrypt.protocol.costs import Cost
from sensecrypt.protocol.messages import Aggregate
from sensecrypt.protocol.round import Round


def decrypt_aggregate(
    aggregate: Aggregate,
    round_: Round,
    secret: DecryptionKey,
    order: checks.IntVector | None,
    *,
    blindings: Iterable[Blinding] = (),
    workers: int = 1,
) -> tuple[Ints, Ints, bool, Cost]:
    """Decrypt what somebody encrypted, add what somebody did not minus its blinding, and undo the order.

    Returns:
        The sums over those who encrypted, 0 where nobody did; the sums over everybody; whether the ciphertexts were
        of packed numbers; and what decrypting them cost. If they were not, ones stand for them, so that a sum that
        fails takes as long as one that does not.

    Args:
        aggregate: the sum.
        round_: its round.
        secret: the key.
        order: slot s holds parameter order[s]; None: the natural order.
        blindings: of the contributors that blind.
        workers: processes.
    """
    encrypted, rest = np.zeros(round_.size, dtype=np.int64), -sum_of(blindings, round_)
    rest[~aggregate.common.to_array()] += aggregate.plain
    sound, cost = True, Cost()
    if aggregate.mask.blocks:
        try:
            with cost.of("decrypt", aggregate.mask.blocks):
                decrypted = secret.decrypt(aggregate.ciphertexts, aggregate.mask.count, workers=workers)
        except InvalidCiphertext:
            decrypted, sound = np.ones(aggregate.mask.count, dtype=np.int64), False
        encrypted[aggregate.mask.to_array()] = decrypted
    return _in_order(encrypted, order), _in_order(wrap(encrypted + rest, round_), order), sound, cost


def _in_order(in_slots: Ints, order: checks.IntVector | None) -> Ints:
    if order is None:
        return in_slots
    values = np.empty_like(in_slots)
    values[order] = in_slots
    return values
