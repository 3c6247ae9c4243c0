"""CKKS, implemented by TenSEAL: the public side.

Only sums are needed, so the modulus is the smallest that allows them: primes of 60 + 60 bits, scale 2^26. Values are
32-bit integers, and decryption rounds to integers.

Error: the noise of one ciphertext is below 0.001, and the noise of a sum is the sum of the noises. Sums of up to 1,000
ciphertexts are within `ERROR_BOUND` = 1 of the exact sum (measured: below 0.2 before rounding, so exact in practice).
As for the other schemes, a sum must fit 31 bits and a sign.

Li and Micciancio's attack (2021) passively recovers the key from the noise in approximate decryptions. Here decryption
rounds to integers, and the noise is well below 0.5. So the released values are the exact sum and contain no noise. That
holds for sums of up to 1,000 ciphertexts, all made by `encrypt`.

TenSEAL parses ciphertexts with its own C++ code, which is not hardened against malicious input. The parsed object is
checked before use, but a fleet with untrusted clients should use another scheme.
"""

from __future__ import annotations

import hashlib
import importlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.base import PublicKeyBase, RunningSum, check_shape, profile_of, same_rows
from sensecrypt.crypto.encoding import check_ints, rows_of
from sensecrypt.crypto.scheme import Ciphertexts, PublicScheme, RowNumbers
from sensecrypt.errors import InvalidCiphertext, InvalidKey, MissingExtra
from sensecrypt.profiles import Profile

COEFFICIENT_BITS = [60, 60]
SCALE = 2.0**26
ERROR_BOUND = 1
_LENGTH_BYTES = 4


def tenseal() -> Any:
    """Return the library; raise `MissingExtra` if it is not installed."""
    try:
        return importlib.import_module("tenseal")
    except ImportError as error:
        raise MissingExtra("CKKS", "ckks") from error


class CkksPublicKey(PublicKeyBase):
    """Encrypts and adds; its context contains no secret key."""

    def __init__(self, context: bytes, profile: str | Profile = "ckks-8192") -> None:
        """Parse TenSEAL's serialised public context."""
        chosen = profile_of("ckks", profile)
        self._serialised = context
        self._context = load_context(context, chosen)
        super().__init__(chosen, hashlib.sha256(context).digest())
        if self._context.has_secret_key():
            raise InvalidKey("context", "holds a secret key", "serialise it without the secret key")

    @property
    def context(self) -> bytes:
        """TenSEAL's serialised public context."""
        return self._serialised

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Return fresh ciphertexts. `workers` has no effect: TenSEAL runs in this process."""
        checks.whole("workers", workers, low=1, high=1024)
        return self.write([tenseal().ckks_vector(self._context, row, SCALE) for row in self._rows(ints)])

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """Return ciphertexts of the row-wise sums."""
        left, right = self.parse("a", a), self.parse("b", b)
        same_rows(len(left), len(right))
        return self.write(_sums(left, right))

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """Return ciphertexts of the sums with known numbers; they are not re-randomised."""
        left, rows = self.parse("a", a), self._rows(ints)
        same_rows(len(left), len(rows))
        return self.write(_sums(left, rows))

    def accumulator(self, rows: int) -> CkksAccumulator:
        """Return an empty running sum of uploads of that many rows."""
        return CkksAccumulator(self, rows)

    # Only other modules of this package use the following methods.

    def parse(self, argument: str, ciphertexts: Ciphertexts) -> list[Any]:
        """Return TenSEAL's vectors, one per row."""
        return parse_with(self._context, self._profile, argument, ciphertexts)

    def write(self, vectors: list[Any]) -> Ciphertexts:
        """Return rows of a length, the serialised vector and zeros up to the fixed length: the inverse of `parse`."""
        rows = np.zeros((len(vectors), self._profile.ciphertext_bytes), dtype=np.uint8)
        for row, vector in zip(rows, vectors, strict=True):
            data = vector.serialize()
            if len(data) > row.size - _LENGTH_BYTES:
                raise InvalidCiphertext("ciphertexts", "is too long for its row", "add only results of encrypt")
            row[:_LENGTH_BYTES] = np.frombuffer(len(data).to_bytes(_LENGTH_BYTES, "little"), dtype=np.uint8)
            row[_LENGTH_BYTES : _LENGTH_BYTES + len(data)] = np.frombuffer(data, dtype=np.uint8)
        return rows

    def _rows(self, ints: npt.ArrayLike) -> list[list[float]]:
        values = check_ints("ints", ints, self._profile.slot_bits)
        filled = np.zeros(rows_of(values.size, self.slots) * self.slots)
        filled[: values.size] = values
        rows: list[list[float]] = filled.reshape(-1, self.slots).tolist()
        return rows


class CkksAccumulator(RunningSum[list[Any]]):
    """A running sum of uploads."""

    def __init__(self, public: CkksPublicKey, rows: int) -> None:
        """Start with no summands."""
        super().__init__(rows, public.profile)
        self._public = public
        self._vectors: list[Any] = [None] * rows

    def _read(self, ciphertexts: Ciphertexts) -> list[Any]:
        return self._public.parse("ciphertexts", ciphertexts)

    def _add(self, upload: list[Any], rows: RowNumbers) -> None:
        numbers = rows.tolist()
        sums = _sums([self._vectors[row] for row in numbers], upload)
        for row, vector in zip(numbers, sums, strict=True):
            self._vectors[row] = vector

    def _sums(self, rows: RowNumbers) -> Ciphertexts:
        return self._public.write([self._vectors[row] for row in rows.tolist()])


def load_context(context: bytes, profile: Profile) -> Any:
    """Return TenSEAL's context; raise if it has no public key or other parameters than `profile`."""
    try:
        loaded = tenseal().context_from(context)
        seal, has_public_key = loaded.seal_context().data, loaded.has_public_key()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidKey("context", "is not a TenSEAL context", "use the key as it was generated") from error
    if not has_public_key:
        raise InvalidKey("context", "holds no public key", "use the key as it was generated")
    # The binding does not expose the moduli, only the bits of their product: of all moduli, and without the last one.
    # A first level that is also the lowest (chain index 0) has a single modulus, so the two numbers give both sizes.
    key, first = seal.key_context_data(), seal.first_context_data()
    got = (
        key.parms().scheme().name,
        key.parms().poly_modulus_degree(),
        first.chain_index(),
        first.total_coeff_modulus_bit_count(),
        key.total_coeff_modulus_bit_count(),
    )
    if got != ("CKKS", profile.key_bits, 0, COEFFICIENT_BITS[0], sum(COEFFICIENT_BITS)):
        raise InvalidKey("context", f"has other parameters than {profile.name}", "use the key as it was generated")
    return loaded


def parse_with(context: Any, profile: Profile, argument: str, ciphertexts: Ciphertexts) -> list[Any]:
    """Return TenSEAL's vectors in `context`, one per row; raise if one differs in form from results of `encrypt`."""
    vectors = []
    for index, row in enumerate(check_shape(argument, ciphertexts, profile.ciphertext_bytes)):
        length = int.from_bytes(row[:_LENGTH_BYTES].tobytes(), "little")
        data, padding = row[_LENGTH_BYTES : _LENGTH_BYTES + length].tobytes(), row[_LENGTH_BYTES + length :]
        try:
            if len(data) != length or padding.any() or not _is_framed(data, profile.slots):
                raise ValueError("impossible length or frame")
            vector = tenseal().ckks_vector_from(context, data)
            if vector.size() != profile.slots or not _is_like_fresh(vector.ciphertext(), profile.key_bits):
                raise ValueError("another form")
        except (ValueError, RuntimeError):
            problem = f"has no ciphertext of this key in row {index:,}"
            raise InvalidCiphertext(argument, problem, "pass results of encrypt, or sums of them") from None
        vectors.append(vector)
    return vectors


def _is_framed(data: bytes, slots: int) -> bool:
    """Return whether TenSEAL's protobuf consists of exactly one size, one ciphertext and our scale.

    The binding exposes neither the list of sizes nor this scale, and forged ones fail later or end the process.
    """
    size = len(data) - 17  # of the ciphertext without this frame; protobuf encodes it in three bytes
    head = [0x0A, 2, slots & 127 | 128, slots >> 7, 0x12, size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127]
    return data.startswith(bytes(head)) and data.endswith(struct.pack("<Bd", 0x19, SCALE))


def _is_like_fresh(ciphertexts: list[Any], degree: int) -> bool:
    """Return whether this is one ciphertext of the form of a fresh one: two polynomials modulo one prime."""
    if len(ciphertexts) != 1:
        return False
    (one,) = ciphertexts
    shape = (one.size(), one.poly_modulus_degree(), one.coeff_modulus_size())
    same = shape == (2, degree, len(COEFFICIENT_BITS) - 1) and one.scale == SCALE
    return bool(same and one.is_ntt_form() and not one.is_transparent())


def _sums(left: list[Any], right: list[Any]) -> list[Any]:
    """Return the row-wise sums; None on the left is an empty sum."""
    try:
        return [d if c is None else c + d for c, d in zip(left, right, strict=True)]
    except (ValueError, RuntimeError):
        problem = "cannot be added: a sum would not be a ciphertext"
        raise InvalidCiphertext("ciphertexts", problem, "add only results of encrypt") from None


def _fields(key: CkksPublicKey) -> dict[str, str]:
    return {"context": key.context.hex()}


def _parse(fields: Mapping[str, Any], profile: Profile) -> CkksPublicKey:
    return CkksPublicKey(bytes.fromhex(fields["context"]), profile)


SCHEME = PublicScheme(CkksPublicKey, _fields, _parse)
