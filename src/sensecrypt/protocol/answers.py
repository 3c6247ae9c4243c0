"""The key server's answers: seeds, orders and models for clients, acknowledgements for the aggregator.

An acknowledgement says that a sum was released and which clients are in it. It contains nothing of the sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.sketching import MAX_ROTATED
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.protocol.envelope import parse, parse_any, serialize
from sensecrypt.protocol.ledger import ImportanceOrder
from sensecrypt.protocol.round import Round, describe_round, read_round
from sensecrypt.protocol.updates import ReleasedSum
from sensecrypt.worktime import Cost

_LONGEST = 100.0  # bound on the norm of a sketch; real sketches have about 1
_Tensors = dict[str, tuple[npt.DTypeLike, int]]
_RANKING: _Tensors = {"low": (np.dtype("<u2"), 1), "high": (np.dtype("u1"), 2), "profile": (np.dtype("<f8"), 1)}


@dataclass(frozen=True)
class Acknowledgement:
    """The message that a sum was released.

    Attributes:
        contributors: the clients whose uploads are in it.
        weight: Σ p_i over them.
        cost: the cost of decrypting it, if the key server is in the same process; not part of the message.
    """

    contributors: tuple[int, ...]
    weight: float
    cost: Cost | None = field(default=None, compare=False)

    def to_bytes(self) -> bytes:
        """Return the message."""
        return serialize("acknowledgement", _contribution(self.contributors, self.weight), {})

    @classmethod
    def from_bytes(cls, data: bytes) -> Acknowledgement:
        """Parse a message; raise `Rejected` if it is invalid."""
        fields, _ = parse(data, "acknowledgement", header={"contributors": str, "weight": str}, tensors={})
        return cls(*_read_contribution(fields["contributors"], fields["weight"]))


def serialize_sketch(row: checks.FloatVector) -> bytes:
    """Return the message of a client's sketch, to the key service and back."""
    return serialize("sketch", {}, {"row": row.astype("<f8")})


def read_sketch(data: bytes) -> checks.FloatVector:
    """Parse the message of a sketch; raise `Rejected` if it is invalid."""
    _, arrays = parse(data, "sketch", header={}, tensors={"row": (np.dtype("<f8"), 1)})
    row = arrays["row"]
    if not 1 <= row.size <= MAX_ROTATED or not np.linalg.norm(row) <= _LONGEST:
        raise Rejected("an impossible sketch")
    return row


def order_bytes(size: int) -> int:
    """Return the bytes of an order of `size` parameters in a message: as many bits per index as needed."""
    return 2 * size + _high_bits(size) * -(-size // 8)


def serialize_importance_order(ranking: ImportanceOrder) -> bytes:
    """Return the message of a cluster's order: the lower 16 bits of each index, then one row per higher bit."""
    order = ranking.order
    high = [np.packbits((order >> 16 + bit).astype(np.uint8) & 1) for bit in range(_high_bits(order.size))]
    rows = np.array(high, dtype=np.uint8).reshape(len(high), -(-order.size // 8))
    tensors = {"low": order.astype("<u2"), "high": rows, "profile": ranking.sensitivities.astype("<f8")}
    return serialize("ranking", {}, tensors)


def read_importance_order(data: bytes) -> ImportanceOrder:
    """Parse the message of an order; raise `Rejected` if it is invalid."""
    _, arrays = parse(data, "ranking", header={}, tensors=_RANKING)
    order, high = arrays["low"].astype(np.int64), arrays["high"]
    if high.shape != (_high_bits(order.size), -(-order.size // 8)):
        raise Rejected(f"an order of {order.size:,} parameters with the wrong number of bits")
    for bit, row in enumerate(high):
        order |= np.unpackbits(row, count=order.size).astype(np.int64) << 16 + bit
    try:
        return ImportanceOrder(
            checks.permutation("order", order, order.size), checks.finite_vector("profile", arrays["profile"])
        )
    except InvalidInput as error:
        raise Rejected(f"an impossible order: {error.problem}") from None


def _high_bits(size: int) -> int:
    """Return the number of bits of the largest index beyond the lower 16."""
    return max(0, (size - 1).bit_length() - 16)


def serialize_moved(moved: npt.NDArray[np.float32]) -> bytes:
    """Return the message of how far a cluster has moved, without the contributors and their weights."""
    return serialize("moved", {}, {"moved": moved.astype("<f4")})


def read_moved(data: bytes, size: int) -> npt.NDArray[np.float32]:
    """Parse such a message; raise `Rejected` unless it has `size` finite numbers."""
    _, arrays = parse(data, "moved", header={}, tensors={"moved": (np.dtype("<f4"), 1)})
    if arrays["moved"].size != size:
        raise Rejected(f"{arrays['moved'].size:,} values, but the model has {size:,}")
    if not np.isfinite(arrays["moved"]).all():
        raise Rejected("a model with values that are not finite")
    return arrays["moved"].astype(np.float32)


def serialize_released(released: ReleasedSum, round_: Round) -> bytes:
    """Return the bytes in which the key server stores a released sum: values of a slot's width, as in uploads."""
    values = released.values.astype(f"<i{round_.profile.slot_bits // 8}")
    return serialize("released", _contribution(released.contributors, released.weight), {"values": values})


def read_released(data: bytes, round_: Round) -> ReleasedSum:
    """Parse a stored sum; raise `Rejected` if it is invalid."""
    kind = np.dtype(f"<i{round_.profile.slot_bits // 8}")
    header = {"contributors": str, "weight": str}
    fields, arrays = parse(data, "released", header=header, tensors={"values": (kind, 1)})
    if arrays["values"].size != round_.size:
        raise Rejected(f"a sum of {arrays['values'].size:,} values, but the model has {round_.size:,}")
    contributors, weight = _read_contribution(fields["contributors"], fields["weight"])
    return ReleasedSum(arrays["values"].astype(np.int64), weight, contributors)


def _contribution(contributors: tuple[int, ...], weight: float) -> dict[str, str | int]:
    return {"contributors": ",".join(map(str, contributors)), "weight": weight.hex()}


def _read_contribution(contributors: str, weight: str) -> tuple[tuple[int, ...], float]:
    try:
        return tuple(int(client) for client in contributors.split(",")), float.fromhex(weight)
    except (ValueError, OverflowError):
        raise Rejected("damaged message: contributors and their weight cannot be read") from None


_SEED_BYTES = 32


@dataclass(frozen=True, eq=False)
class RoundTask:
    """A round, and the secrets that its members share.

    Attributes:
        round: the registered round.
        seed: the seed of its tags.
        ranking: the importance order of its cluster, if there is one.
        after: the round of sensitivities that belongs to it, if a new order is due.
        after_seed: the seed of that round's tags.
    """

    round: Round
    seed: bytes = field(repr=False)
    ranking: ImportanceOrder | None = field(default=None, repr=False)
    after: Round | None = None
    after_seed: bytes = field(default=b"", repr=False)

    def to_bytes(self) -> bytes:
        """Return the message."""
        parts = {"round": describe_round(self.round), "seed": self.seed}
        if self.ranking is not None:
            parts["ranking"] = serialize_importance_order(self.ranking)
        if self.after is not None:
            parts |= {"after": describe_round(self.after), "after_seed": self.after_seed}
        return serialize("task", {}, {name: np.frombuffer(data, dtype=np.uint8) for name, data in parts.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundTask:
        """Parse a message; raise `Rejected` if it is invalid."""
        _, arrays = parse_any(data, "task")
        if not {"round", "seed"} <= set(arrays) <= {"round", "seed", "ranking", "after", "after_seed"}:
            raise Rejected("a task with missing or unknown parts")
        seed, after_seed = _seed(arrays["seed"]), b""
        after = None
        if "after" in arrays:
            after, after_seed = read_round(arrays["after"].tobytes()), _seed(arrays.get("after_seed"))
        ranking = read_importance_order(arrays["ranking"].tobytes()) if "ranking" in arrays else None
        return cls(read_round(arrays["round"].tobytes()), seed, ranking, after, after_seed)


def _seed(array: npt.NDArray[np.uint8] | None) -> bytes:
    if array is None or array.dtype != np.uint8 or array.size != _SEED_BYTES:
        raise Rejected("a task without a seed")
    return array.tobytes()
