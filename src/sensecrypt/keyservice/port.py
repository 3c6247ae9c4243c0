"""What coordinator and clients ask of a key service, wherever it runs: in this process, or behind HTTPS."""

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
    """The key service as an aggregator sees it. What it refuses raises `Refused` or `Rejected`."""

    def run(self, run: str) -> dict[str, Any]:
        """What is public about a run: its release rules, and the names of its members by number."""

    def public_key(self, run: str) -> EncryptionKey:
        """The run's public key."""

    def samples(self, run: str) -> dict[int, int]:
        """How many samples each client reported."""

    def register_round(self, round_: Round) -> None:
        """Announce a round and its members."""

    def tags(self, round_: Round) -> list[int]:
        """Whose tags have arrived."""

    def release(self, aggregate: bytes, round_: Round) -> Acknowledgement:
        """Have a sum decrypted and verified."""


class ClientKeyService(Protocol):
    """The key service as one client sees it. What it refuses raises `Refused` or `Rejected`."""

    def run(self, run: str) -> dict[str, Any]:
        """What is public about a run, and this client's number in it."""

    def public_key(self, run: str) -> StorablePublicKey:
        """The run's public key."""

    def report_samples(self, run: str, samples: int) -> None:
        """Report how many samples this client has; the first report counts."""

    def rotate_sketch(self, run: str, row: checks.FloatVector) -> checks.FloatVector:
        """This client's sketch as the aggregator may have it."""

    def task(self, place: RoundAddress) -> RoundTask:
        """What this client needs for its part in a round."""

    def send_tag(self, tag: bytes, round_: Round) -> None:
        """Hand in this client's tag."""

    def moved(self, place: RoundAddress, size: int) -> npt.NDArray[np.float32]:
        """How far this client's cluster has moved after a round."""


class VolatileKeyService(Protocol):
    """A key service that ends with its process: whoever keeps the run's checkpoint keeps its state."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What a run that is resumed needs again."""

    def restore(
        self, run: str, state: Mapping[str, npt.NDArray[Any]], latest: Mapping[int, Round], samples: Mapping[int, int]
    ) -> None:
        """Go on from there.

        Args:
            run: its name.
            state: what `state` returned.
            latest: the round that gave each cluster its model.
            samples: what clients reported.
        """
