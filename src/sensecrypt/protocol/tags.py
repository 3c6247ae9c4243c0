"""MAC tags and blinding, which a client sends to the key server with every upload.

With tags, the key server verifies a sum without seeing any upload.

A tag is Σ ρ_k · v_k modulo the prime 2^61 − 1 over a client's whole fixed-point vector v, with ρ expanded by
AES-256 in counter mode from a seed that clients and key server share for one round and the aggregator does not know.
The sum of tags is the tag of the sum. Without knowing ρ, a changed sum escapes detection with probability 2^−61,
provided that nobody can add the prime itself: values must therefore be `taggable`, even if slots are wide enough for
larger ones.

A tag of one of few possible vectors would confirm a guess. So the key server receives the tag plus a `TagOffset`, drawn
per upload. Only the aggregator receives the offset, and it passes on only the sum of offsets. That sum acts as one more
coordinate with coefficient 1: a change of it cancels another change with probability 2^−61 as well.

Blinding hides what a client does not encrypt: the aggregator adds blinded values, the key server unblinds the sum.
For every upload, a client draws a fresh seed, expands it with AES-256 in counter mode to one random number per slot,
and adds these, modulo the slot's width, to the values that it does not encrypt. The seed goes to the key server with
the tag, never to the aggregator. The key server subtracts the blinding of exactly the contributors from the sum. A
blinded value is as long as a plain one, and its sum is released only together with that of the ciphertexts.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sensecrypt.crypto.scheme import Ints
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

PRIME = 2**61 - 1
_LIMIT = 2**60  # two numbers of smaller absolute value differ by less than the prime
_CHUNK = 1 << 16
_HALF = 31  # bits
_PER_AES_BLOCK = 2  # coefficients; chunks start at an even one


@dataclass(frozen=True)
class TagOffset:
    """The numbers added, modulo the prime, to the two tags of an upload or of a sum.

    Attributes:
        whole: added to the tag over all values.
        encrypted: added to the tag over the encrypted values.
    """

    whole: int = 0
    encrypted: int = 0

    def __repr__(self) -> str:
        return "TagOffset(…)"  # with a tag and its seed, it would confirm guesses

    def plus(self, other: TagOffset, *, times: int = 1) -> TagOffset:
        """Return the tag offset of a sum after the upload of `other` was added `times` times."""
        whole, encrypted = self.whole + times * other.whole, self.encrypted + times * other.encrypted
        return TagOffset(whole % PRIME, encrypted % PRIME)


def new_tag_offset() -> TagOffset:
    """Return a random tag offset for one upload, from the operating system."""
    return TagOffset(secrets.randbelow(PRIME), secrets.randbelow(PRIME))


def mac_tag(values: Ints, seed: bytes) -> int:
    """Return the tag of `values`, in the parameters' natural order; the time does not depend on the values."""
    total = 0
    for start in range(0, values.size, _CHUNK):
        chunk = values[start : start + _CHUNK]
        rho = _coefficients(seed, start, chunk.size)
        low_v, high_v = chunk & (2**32 - 1), chunk >> 32  # v = low + 2^32·high, high signed
        low_rho, high_rho = rho & (2**_HALF - 1), rho >> _HALF
        for v, v_shift in ((low_v, 0), (high_v, 32)):
            for r, r_shift in ((low_rho, 0), (high_rho, _HALF)):
                total += _dot(v, r) << (v_shift + r_shift)
    return total % PRIME


def taggable(values: Ints, *, times: int = 1) -> bool:
    """Return whether all values are so small that no two different vectors of them have equal tags for every ρ.

    Args:
        values: the values.
        times: how many such values are summed; the bound applies to the sum.
    """
    return int(values.min()) * times > -_LIMIT and int(values.max()) * times < _LIMIT


def _dot(a: Ints, b: Ints) -> int:
    """Return Σ a·b exactly: each product fits 63 bits and is summed in two halves, which cannot overflow."""
    products = a * b
    return (int((products >> _HALF).sum()) << _HALF) + int((products & (2**_HALF - 1)).sum())


def _coefficients(seed: bytes, start: int, count: int) -> npt.NDArray[np.int64]:
    """Return ρ for the parameters from `start` on, an even number: 61 random bits each (2^61 − 1 counts as 0)."""
    key = hashlib.sha256(b"sensecrypt tag v2" + seed).digest()
    first = (start // _PER_AES_BLOCK).to_bytes(16, "big")
    stream = Cipher(algorithms.AES256(key), modes.CTR(first)).encryptor().update(bytes(8 * count))
    return np.frombuffer(stream, dtype="<i8") & (2**61 - 1)


SEED_BYTES = 32


@dataclass(frozen=True)
class Blinding:
    """The blinding of one upload.

    Attributes:
        seed: drawn for this upload only.
        mask: the encrypted blocks, in slot space; everything else is blinded.
    """

    seed: bytes
    mask: Mask

    def __repr__(self) -> str:
        return f"Blinding(…, {self.mask!r})"  # a seed must not be in a log

    def values(self, round_: Round) -> Ints:
        """Return the number added to each slot; 0 for encrypted slots."""
        width = round_.profile.slot_bits // 8
        cipher = Cipher(algorithms.AES256(self.seed), modes.CTR(bytes(16))).encryptor()
        numbers = np.frombuffer(cipher.update(bytes(width * round_.size)), dtype=f"<i{width}")
        return np.where(self.mask.to_array(), 0, numbers).astype(np.int64)


def new_blinding(mask: Mask) -> Blinding:
    """Return a blinding for an upload that encrypts `mask`, in slot space; the seed is from the operating system."""
    return Blinding(secrets.token_bytes(SEED_BYTES), mask)


def wrap(values: Ints, round_: Round) -> Ints:
    """Return the values modulo a slot's width, as signed numbers."""
    return values.astype(f"<i{round_.profile.slot_bits // 8}").astype(np.int64)


def sum_of(blindings: Iterable[Blinding], round_: Round) -> Ints:
    """Return the sum of the blindings' values."""
    total = np.zeros(round_.size, dtype=np.int64)
    for blinding in blindings:
        total += blinding.values(round_)  # may overflow, because only the sum modulo a slot's width is used
    return total
