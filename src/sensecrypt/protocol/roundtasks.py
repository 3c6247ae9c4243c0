"""What a member needs for its part in a round, in one answer of the key server."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sensecrypt.errors import Rejected
from sensecrypt.protocol.answers import read_importance_order, serialize_importance_order
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.protocol.ledger import ImportanceOrder
from sensecrypt.protocol.round import Round, describe_round, read_round

_SEED_BYTES = 32


@dataclass(frozen=True, eq=False)
class RoundTask:
    """A round, and what only its members may know.

    Attributes:
        round: as it was registered.
        seed: of its tags.
        ranking: the order of the parameters that holds for it, if there is one.
        after: the round of sensitivities that goes with it, if a new order is due.
        after_seed: of that round's tags.
    """

    round: Round
    seed: bytes = field(repr=False)
    ranking: ImportanceOrder | None = field(default=None, repr=False)
    after: Round | None = None
    after_seed: bytes = field(default=b"", repr=False)

    def to_bytes(self) -> bytes:
        """The message."""
        parts = {"round": describe_round(self.round), "seed": self.seed}
        if self.ranking is not None:
            parts["ranking"] = serialize_importance_order(self.ranking)
        if self.after is not None:
            parts |= {"after": describe_round(self.after), "after_seed": self.after_seed}
        return serialize("task", {}, {name: np.frombuffer(data, dtype=np.uint8) for name, data in parts.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundTask:
        """Read a message, or raise `Rejected`."""
        _, arrays = parse_any(data, "task")
        if not {"round", "seed"} <= set(arrays) <= {"round", "seed", "ranking", "after", "after_seed"}:
            raise Rejected("a task with other parts than tasks have")
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
