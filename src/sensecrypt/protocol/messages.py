"""The messages of a round: uploads, tags, aggregates and proposals, serialized and strictly parsed.

All positions are *slots*: the aggregator does not know which parameter a slot holds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.crypto.scheme import Ciphertexts, Ints
from sensecrypt.errors import MaskMismatch, Rejected
from sensecrypt.protocol.envelope import parse, serialize
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import PRIME, SEED_BYTES, Blinding, TagOffset
from sensecrypt.types import Mask

_ROUND_FIELDS = {"run": str, "round": int, "attempt": int, "cluster": int, "purpose": str}
_TAG_OFFSET = (np.dtype("<u8"), 1)
_BYTES = (np.dtype(np.uint8), 1)


@dataclass(frozen=True)
class Upload:
    """One client's model or update, partly encrypted.

    Attributes:
        client: the client's number.
        mask: the encrypted blocks, in slot space.
        ciphertexts: one row per encrypted block.
        plain: the fixed-point values of all other slots, ascending, blinded or plain.
        tag_offset: the offset of the client's tags, which only the aggregator receives.
    """

    client: int
    mask: Mask
    ciphertexts: Ciphertexts
    plain: Ints
    tag_offset: TagOffset

    def to_bytes(self, round_: Round) -> bytes:
        """Return the message: a prefix is one number, another mask one bit per block; values have a slot's width."""
        prefix, bits = _mask_fields(self.mask)
        tensors = {
            "mask": bits,
            "ciphertexts": self.ciphertexts.reshape(-1)[: _encrypted_bytes(self.mask, round_)],
            "plain": self.plain.astype(_value_type(round_)),
            "tag_offset": _tag_offset(self.tag_offset),
        }
        return serialize("upload", {**round_.header, "client": self.client, "prefix": prefix}, tensors)

    @classmethod
    def from_bytes(cls, data: bytes, round_: Round) -> Upload:
        """Parse a message of this round; raise `Rejected` if it is invalid."""
        header = {**_ROUND_FIELDS, "client": int, "prefix": int}
        tensors = {"mask": _BYTES, "ciphertexts": _BYTES, "plain": (_value_type(round_), 1), "tag_offset": _TAG_OFFSET}
        fields, arrays = parse(data, "upload", header=header, tensors=tensors)
        _require_round(fields, round_)
        if fields["client"] not in round_.weights:
            raise Rejected(f"client {fields['client']} is not a member of cluster {round_.cluster}")
        mask = _read_mask(fields["prefix"], arrays["mask"], round_)
        ciphertexts, plain = _read_values(arrays, round_, encrypted=mask, common=mask)
        return cls(fields["client"], mask, ciphertexts, plain, _read_tag_offset(arrays["tag_offset"]))


@dataclass(frozen=True)
class Aggregate:
    """The sum of a cluster's uploads.

    Attributes:
        contributors: the clients whose uploads are in it, ascending.
        mask: the union of their masks.
        ciphertexts: one row per block of the union: the sum over the clients that encrypted it.
        common: the intersection of their masks. If the aggregator multiplies, it is the union, because plain values
            were added to the ciphertexts.
        plain: for all slots outside `common`, the sums over the clients that did not encrypt them, modulo the slot's
            width.
        tag_offset: the sum of the contributors' tag offsets, each times its client's factor.
    """

    contributors: tuple[int, ...]
    mask: Mask
    ciphertexts: Ciphertexts
    common: Mask
    plain: Ints
    tag_offset: TagOffset

    def to_bytes(self, round_: Round) -> bytes:
        """Return the message."""
        prefix, bits = _mask_fields(self.mask)
        common_prefix, common_bits = _mask_fields(self.common)
        header: dict[str, str | int] = {
            **round_.header,
            "contributors": ",".join(map(str, self.contributors)),
            "prefix": prefix,
            "common_prefix": common_prefix,
        }
        tensors = {
            "mask": bits,
            "ciphertexts": self.ciphertexts.reshape(-1)[: _encrypted_bytes(self.mask, round_)],
            "common": common_bits,
            "plain": self.plain.astype(_value_type(round_)),
            "tag_offset": _tag_offset(self.tag_offset),
        }
        return serialize("aggregate", header, tensors)

    @classmethod
    def from_bytes(cls, data: bytes, round_: Round) -> Aggregate:
        """Parse a message of this round; raise `Rejected` if it is invalid."""
        header = {**_ROUND_FIELDS, "contributors": str, "prefix": int, "common_prefix": int}
        values = {"ciphertexts": _BYTES, "plain": (_value_type(round_), 1), "tag_offset": _TAG_OFFSET}
        tensors = {"mask": _BYTES, "common": _BYTES, **values}
        fields, arrays = parse(data, "aggregate", header=header, tensors=tensors)
        _require_round(fields, round_)
        try:
            contributors = tuple(int(client) for client in fields["contributors"].split(","))
        except ValueError:
            raise Rejected("an aggregate without contributors") from None
        mask = _read_mask(fields["prefix"], arrays["mask"], round_)
        common = _read_mask(fields["common_prefix"], arrays["common"], round_)
        if round_.factors is not None and (mask.flags != common.flags).any():
            raise Rejected("an aggregate with plain sums beside ciphertexts")
        ciphertexts, plain = _read_values(arrays, round_, encrypted=mask, common=common)
        return cls(contributors, mask, ciphertexts, common, plain, _read_tag_offset(arrays["tag_offset"]))

    def digest(self) -> bytes:
        """Return a hash of the content, which is equal for equal sums."""
        parts = (",".join(map(str, self.contributors)).encode(), self.mask.to_bits(), self.common.to_bits())
        digest = hashlib.sha256()
        tag_offset = _tag_offset(self.tag_offset).tobytes()
        for part in (*parts, self.ciphertexts.tobytes(), self.plain.tobytes(), tag_offset):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.digest()


@dataclass(frozen=True)
class Tag:
    """A client's MAC tags, which only the key server receives.

    Attributes:
        client: the client's number.
        value: the tag over all its values, plus an offset.
        encrypted: the tag over its encrypted values, plus an offset. Without it, an aggregator could move part of a
            value from the ciphertexts to the rest, and learn from the answer whether one of them overflowed.
        blinding: the blinding of the values that are not encrypted; None: they are plain, or there are none.
    """

    client: int
    value: int
    encrypted: int
    blinding: Blinding | None = None

    def to_bytes(self, round_: Round) -> bytes:
        """Return the message."""
        seed, prefix, bits = b"", 0, np.empty(0, dtype=np.uint8)
        if self.blinding is not None:
            seed, (prefix, bits) = self.blinding.seed, _mask_fields(self.blinding.mask)
        sums = {"value": self.value, "encrypted": self.encrypted, "prefix": prefix}
        header = {**round_.header, "client": self.client, **sums}
        return serialize("tag", header, {"blinding": np.frombuffer(seed, dtype=np.uint8), "mask": bits})

    @classmethod
    def from_bytes(cls, data: bytes, round_: Round) -> Tag:
        """Parse a message of this round; raise `Rejected` if it is invalid."""
        header = {**_ROUND_FIELDS, "client": int, "value": int, "encrypted": int, "prefix": int}
        fields, arrays = parse(data, "tag", header=header, tensors={"blinding": _BYTES, "mask": _BYTES})
        _require_round(fields, round_)
        seed, mask = arrays["blinding"].tobytes(), _read_mask(fields["prefix"], arrays["mask"], round_)
        if len(seed) not in (0, SEED_BYTES) or (not seed and mask.blocks):
            raise Rejected("a tag with an incomplete blinding")
        return cls(fields["client"], fields["value"], fields["encrypted"], Blinding(seed, mask) if seed else None)


@dataclass(frozen=True)
class Proposal:
    """The blocks that a client would encrypt, best first: the first of two exchanges if clients agree on a mask.

    Attributes:
        client: the client's number.
        blocks: block numbers, without repetition.
    """

    client: int
    blocks: Ints

    def to_bytes(self, round_: Round) -> bytes:
        """Return the message: four bytes per block."""
        return serialize("proposal", {**round_.header, "client": self.client}, {"blocks": self.blocks.astype("<u4")})

    @classmethod
    def from_bytes(cls, data: bytes, round_: Round) -> Proposal:
        """Parse a message of this round; raise `Rejected` if it is invalid."""
        header = {**_ROUND_FIELDS, "client": int}
        fields, arrays = parse(data, "proposal", header=header, tensors={"blocks": (np.dtype("<u4"), 1)})
        _require_round(fields, round_)
        if fields["client"] not in round_.weights:
            raise Rejected(f"client {fields['client']} is not a member of cluster {round_.cluster}")
        blocks = arrays["blocks"].astype(np.int64)
        if blocks.size and (int(blocks.max()) >= round_.blocks or np.unique(blocks).size != blocks.size):
            raise Rejected("a proposal with unknown or repeated blocks")
        return cls(fields["client"], blocks)


def _value_type(round_: Round) -> np.dtype[Any]:
    return np.dtype(f"<i{round_.profile.slot_bits // 8}")


def _tag_offset(tag_offset: TagOffset) -> npt.NDArray[np.uint64]:
    return np.array([tag_offset.whole, tag_offset.encrypted], dtype="<u8")


def _read_tag_offset(numbers: npt.NDArray[Any]) -> TagOffset:
    if numbers.shape != (2,) or int(numbers.max()) >= PRIME:
        raise Rejected("an impossible offset of tags")
    return TagOffset(int(numbers[0]), int(numbers[1]))


def _mask_fields(mask: Mask) -> tuple[int, npt.NDArray[np.uint8]]:
    """Return a prefix as its number of blocks, any other mask as −1 and one bit per block."""
    if mask.flags[: mask.blocks].all():
        return mask.blocks, np.empty(0, dtype=np.uint8)
    return -1, np.frombuffer(mask.to_bits(), dtype=np.uint8)


def _read_mask(prefix: int, bits: npt.NDArray[Any], round_: Round) -> Mask:
    try:
        if prefix == -1:
            return Mask.from_bits(bits.tobytes(), size=round_.size, block=round_.block)
    except MaskMismatch as error:
        raise Rejected(f"a mask of another model: {error.problem}") from None
    if not 0 <= prefix <= round_.blocks or bits.size:
        raise Rejected("an impossible mask")
    return Mask.prefix(prefix, size=round_.size, block=round_.block)


def _read_values(
    arrays: dict[str, npt.NDArray[Any]], round_: Round, *, encrypted: Mask, common: Mask
) -> tuple[Ciphertexts, Ints]:
    """Return the ciphertexts, one per block of the union, and the values, one per slot outside the intersection."""
    sent, plain = arrays["ciphertexts"], arrays["plain"]
    if (common.flags & ~encrypted.flags).any():
        raise Rejected("an intersection of masks with blocks outside their union")
    if sent.size != (expected := _encrypted_bytes(encrypted, round_)):
        raise Rejected(
            f"{sent.size:,} bytes of ciphertexts, but a mask of {encrypted.blocks:,} blocks has {expected:,}"
        )
    if plain.size != round_.size - common.count:
        raise Rejected(f"{plain.size:,} plain values, but the mask leaves {round_.size - common.count:,}")
    width = round_.profile.ciphertext_bytes
    rows = np.pad(sent, (0, encrypted.blocks * width - sent.size)).reshape(encrypted.blocks, width)
    return rows, plain.astype(np.int64)


def _encrypted_bytes(mask: Mask, round_: Round) -> int:
    """Return the bytes of a message's ciphertexts: the row of the model's last block is as long as its values need."""
    rows, profile = mask.blocks * round_.profile.ciphertext_bytes, round_.profile
    if not mask.flags[-1]:
        return rows
    return rows - profile.ciphertext_bytes + profile.row_bytes(round_.size - (round_.blocks - 1) * round_.block)


def _require_round(fields: dict[str, Any], round_: Round) -> None:
    for name, expected in round_.header.items():
        if fields[name] != expected:
            raise Rejected(f"message of {name} {fields[name]!s:.40}, but this is {name} {expected}")
