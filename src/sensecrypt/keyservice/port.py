"""The key service as coordinator and clients use it, in this process or behind HTTPS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.scheme import EncryptionKey, StorablePublicKey
from sensecrypt.protocol.answers import Acknowledgement, RoundTask
from sensecrypt.protocol.round import Round, RoundAddress


class AggregatorKeyService(Protocol):
    """The key service as an aggregator sees it. A refusal raises `Refused` or `Rejected`."""

    def run(self, run: str) -> dict[str, Any]:
        """The public facts of a run: its release rules, and the names of its members by number."""

    def public_key(self, run: str) -> EncryptionKey:
        """The run's public key."""

    def samples(self, run: str) -> dict[int, int]:
        """How many samples each client has reported."""

    def register_round(self, round_: Round) -> None:
        """Register a round and its members."""

    def tags(self, round_: Round) -> list[int]:
        """The clients whose tags have arrived."""

    def release(self, aggregate: bytes, round_: Round) -> Acknowledgement:
        """Have a sum decrypted and verified."""


class ClientKeyService(Protocol):
    """The key service as one client sees it. A refusal raises `Refused` or `Rejected`."""

    def run(self, run: str) -> dict[str, Any]:
        """The public facts of a run, and this client's number in it."""

    def public_key(self, run: str) -> StorablePublicKey:
        """The run's public key."""

    def report_samples(self, run: str, samples: int) -> None:
        """Report this client's number of samples; only the first report counts."""

    def rotate_sketch(self, run: str, row: checks.FloatVector) -> checks.FloatVector:
        """This client's sketch, rotated, as the aggregator may have it."""

    def task(self, place: RoundAddress) -> RoundTask:
        """The data that this client needs for a round."""

    def send_tag(self, tag: bytes, round_: Round) -> None:
        """Send this client's tag."""

    def moved(self, place: RoundAddress, size: int) -> npt.NDArray[np.float32]:
        """How far this client's cluster has moved after a round."""


class VolatileKeyService(Protocol):
    """A key service that ends with its process: the run's checkpoint keeps its state."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The state that a resumed run needs."""

    def restore(
        self, run: str, state: Mapping[str, npt.NDArray[Any]], latest: Mapping[int, Round], samples: Mapping[int, int]
    ) -> None:
        """Continue from a state as `state` returned it; `latest` is the round of each cluster's model."""
