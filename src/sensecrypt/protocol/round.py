"""What all parties of one cluster's round agree on before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.profiles import Profile


@dataclass(frozen=True)
class Round:
    """One cluster's round.

    Attributes:
        run: name of the run.
        number: of the round, from 0.
        cluster: number of the cluster.
        purpose: `model`, or `sensitivity` for the sums that give a cluster its order.
        size: parameters of the model.
        profile: how values are encrypted and packed.
        weights: p of every member; they sum to 1.
        attempt: how often the round was started before.
    """

    run: str
    number: int
    cluster: int
    purpose: str
    size: int
    profile: Profile
    weights: Mapping[int, float]
    attempt: int = 0

    def __post_init__(self) -> None:
        """Refuse a round that nobody could complete."""
        checks.choice("purpose", self.purpose, ("model", "sensitivity"))
        checks.whole("size", self.size, low=1)
        if not self.weights or min(self.weights.values()) <= 0 or abs(sum(self.weights.values()) - 1) > 1e-9:
            raise InvalidInput("weights", "are not positive shares of 1", "pass n_i / Σ n_j of the members")

    @property
    def block(self) -> int:
        """Parameters a ciphertext."""
        return min(self.profile.slots, self.size)

    @property
    def blocks(self) -> int:
        """Ciphertexts of a model that is encrypted whole."""
        return -(-self.size // self.block)

    @property
    def header(self) -> dict[str, str | int]:
        """What every message of this round carries."""
        return {
            "run": self.run,
            "round": self.number,
            "attempt": self.attempt,
            "cluster": self.cluster,
            "purpose": self.purpose,
        }
