"""What travels: uploads, receipts, aggregates. Each knows its bytes and refuses everything else.

All positions are *slots*: the aggregator is not told which parameter a slot holds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.crypto.scheme import Ciphertexts, Ints
from sensecrypt.errors import MaskMismatch, Rejected
from sensecrypt.protocol.envelope import seal, unseal
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

_ROUND_FIELDS = {"run": str, "round": int, "attempt": int, "cluster": int, "purpose": str}
_BODY = {"mask": (np.uint8, 1), "ciphertexts": (np.uint8, 2)}


@dataclass(frozen=True)
class Upload:
    """One client's model: part ciphertext, part plain.

    Attributes:
        client: who sent it.
        mask: which blocks are encrypted, in slot space.
        ciphertexts: one row for each of them.
        plain: the fixed-point values of all other slots, ascending.
    """

    client: int
    mask: Mask
    ciphertexts: Ciphertexts
    plain: Ints

    def to_bytes(self, round_: Round) -> bytes:
        """The message: a prefix is one number, any other mask one bit a block; plain values take their slot's width."""
        return seal("upload", {**round_.header, "client": self.client, **_mask_field(self.mask)}, _body(self, round_))

    @classmethod
    def from_bytes(cls, data: bytes, round_: Round) -> Upload:
        """Read a message of this round, or raise `Rejected`."""
        fields, arrays = unseal(
            data, "upload", header={**_ROUND_FIELDS, "client": int, "prefix": int}, tensors=_tensors(round_)
        )
        _require_round(fields, round_)
        if fields["client"] not in round_.weights:
            raise Rejected(f"client {fields['client']} is no member of cluster {round_.cluster}")
        return cls(fields["client"], *_parse_body(fields["prefix"], arrays, round_))


@dataclass(frozen=True)
class Aggregate:
    """The sum of a cluster's uploads.

    Attributes:
        contributors: whose uploads are in it, ascending.
        mask: the union of their masks.
        ciphertexts: one row for each block of it.
        plain: the sums of all other slots.
    """

    contributors: tuple[int, ...]
    mask: Mask
    ciphertexts: Ciphertexts
    plain: Ints

    def to_bytes(self, round_: Round) -> bytes:
        """The message."""
        who = ",".join(map(str, self.contributors))
        return seal("aggregate", {**round_.header, "contributors": who, **_mask_field(self.mask)}, _body(self, round_))

    @classmethod
    def from_bytes(cls, data: bytes, round_: Round) -> Aggregate:
        """Read a message of this round, or raise `Rejected`."""
        fields, arrays = unseal(
            data, "aggregate", header={**_ROUND_FIELDS, "contributors": str, "prefix": int}, tensors=_tensors(round_)
        )
        _require_round(fields, round_)
        try:
            contributors = tuple(int(client) for client in fields["contributors"].split(","))
        except ValueError:
            raise Rejected("an aggregate without contributors") from None
        return cls(contributors, *_parse_body(fields["prefix"], arrays, round_))

    def digest(self) -> bytes:
        """A hash of the content: equal sums are equal, however their messages order their header."""
        parts = (",".join(map(str, self.contributors)).encode(), self.mask.to_bits())
        digest = hashlib.sha256()
        for part in (*parts, self.ciphertexts.tobytes(), self.plain.tobytes()):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.digest()


@dataclass(frozen=True)
class Receipt:
    """A client's check sum over its whole upload, for the key server alone."""

    client: int
    value: int

    def to_bytes(self, round_: Round) -> bytes:
        """The message."""
        return seal("receipt", {**round_.header, "client": self.client, "value": self.value}, {})

    @classmethod
    def from_bytes(cls, data: bytes, round_: Round) -> Receipt:
        """Read a message of this round, or raise `Rejected`."""
        fields, _ = unseal(data, "receipt", header={**_ROUND_FIELDS, "client": int, "value": int}, tensors={})
        _require_round(fields, round_)
        return cls(fields["client"], fields["value"])


@dataclass(frozen=True)
class Proposal:
    """Which blocks a client would encrypt, best first: the first of two exchanges where clients agree on a mask.

    Attributes:
        client: who sent it.
        blocks: numbers of blocks, each once.
    """

    client: int
    blocks: Ints

    def to_bytes(self, round_: Round) -> bytes:
        """The message: four bytes a block."""
        return seal("proposal", {**round_.header, "client": self.client}, {"blocks": self.blocks.astype("<u4")})

    @classmethod
    def from_bytes(cls, data: bytes, round_: Round) -> Proposal:
        """Read a message of this round, or raise `Rejected`."""
        header = {**_ROUND_FIELDS, "client": int}
        fields, arrays = unseal(data, "proposal", header=header, tensors={"blocks": (np.dtype("<u4"), 1)})
        _require_round(fields, round_)
        if fields["client"] not in round_.weights:
            raise Rejected(f"client {fields['client']} is no member of cluster {round_.cluster}")
        blocks = arrays["blocks"].astype(np.int64)
        if blocks.size and (int(blocks.max()) >= round_.blocks or np.unique(blocks).size != blocks.size):
            raise Rejected("a proposal of blocks that do not exist, or of one twice")
        return cls(fields["client"], blocks)


def _value_type(round_: Round) -> np.dtype[Any]:
    return np.dtype(f"<i{round_.profile.slot_bits // 8}")


def _tensors(round_: Round) -> dict[str, tuple[npt.DTypeLike, int]]:
    return {**_BODY, "plain": (_value_type(round_), 1)}


def _mask_field(mask: Mask) -> dict[str, str | int]:
    """The number of blocks of a prefix; −1 for any other mask, which travels as bits."""
    return {"prefix": mask.blocks if mask.flags[: mask.blocks].all() else -1}


def _body(message: Upload | Aggregate, round_: Round) -> dict[str, npt.NDArray[Any]]:
    prefix = _mask_field(message.mask)["prefix"] != -1
    bits = b"" if prefix else message.mask.to_bits()
    return {
        "mask": np.frombuffer(bits, dtype=np.uint8),
        "ciphertexts": message.ciphertexts,
        "plain": message.plain.astype(_value_type(round_)),
    }


def _parse_body(prefix: int, arrays: dict[str, npt.NDArray[Any]], round_: Round) -> tuple[Mask, Ciphertexts, Ints]:
    try:
        if prefix == -1:
            mask = Mask.from_bits(arrays["mask"].tobytes(), size=round_.size, block=round_.block)
        elif 0 <= prefix <= round_.blocks and arrays["mask"].size == 0:
            mask = Mask.prefix(prefix, size=round_.size, block=round_.block)
        else:
            raise Rejected("an impossible mask")
    except MaskMismatch as error:
        raise Rejected(f"a mask of another model: {error.problem}") from None
    ciphertexts, plain = arrays["ciphertexts"], arrays["plain"]
    if ciphertexts.shape != (mask.blocks, round_.profile.ciphertext_bytes):
        raise Rejected(f"ciphertexts of shape {ciphertexts.shape} for a mask of {mask.blocks:,} blocks")
    if plain.size != round_.size - mask.count:
        raise Rejected(f"{plain.size:,} plain values where the mask leaves {round_.size - mask.count:,}")
    return mask, ciphertexts, plain.astype(np.int64)


def _require_round(fields: dict[str, Any], round_: Round) -> None:
    for name, expected in round_.header.items():
        if fields[name] != expected:
            raise Rejected(f"message of {name} {fields[name]!s:.40}, this is {name} {expected}")
