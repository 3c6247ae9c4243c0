"""One-time blinding of what a client does not encrypt: the aggregator adds it, the key server unblinds the sum.

For every upload a client draws a fresh seed, expands it with AES-256 in counter mode to one random number a slot, and
adds these, modulo the slot's width, to the values that it does not encrypt. The seed goes to the key server with the
tag, never to the aggregator. From a verified sum the key server takes the blinding of exactly those who contributed.
A blinded value takes no more room than a plain one, and its sum is released only together with the ciphertexts'.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sensecrypt.crypto.scheme import Ints
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

SEED_BYTES = 32


@dataclass(frozen=True)
class Blinding:
    """How one upload was blinded.

    Attributes:
        seed: drawn for this upload and for no other.
        mask: what the upload encrypts, in slot space: everything else is blinded.
    """

    seed: bytes
    mask: Mask

    def __repr__(self) -> str:
        return f"Blinding(…, {self.mask!r})"  # a seed has no business in a log

    def values(self, round_: Round) -> Ints:
        """What was added, slot by slot: 0 where the upload is encrypted."""
        width = round_.profile.slot_bits // 8
        cipher = Cipher(algorithms.AES256(self.seed), modes.CTR(bytes(16))).encryptor()
        numbers = np.frombuffer(cipher.update(bytes(width * round_.size)), dtype=f"<i{width}")
        return np.where(self.mask.to_array(), 0, numbers).astype(np.int64)


def new_blinding(mask: Mask) -> Blinding:
    """A blinding for an upload that encrypts `mask`, in slot space; its seed comes from the operating system."""
    return Blinding(secrets.token_bytes(SEED_BYTES), mask)


def wrap(values: Ints, round_: Round) -> Ints:
    """The same modulo a slot's width, as signed numbers."""
    return values.astype(f"<i{round_.profile.slot_bits // 8}").astype(np.int64)


def sum_of(blindings: Iterable[Blinding], round_: Round) -> Ints:
    """What all of them added."""
    total = np.zeros(round_.size, dtype=np.int64)
    for blinding in blindings:
        total += blinding.values(round_)  # may overflow: all that counts is the sum modulo a slot's width
    return total
