"""What all parties of one cluster's round agree on before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        factors: n of every member, by which the aggregator multiplies what the member sends; None: members multiply
            by p themselves, before they encrypt.
        clip: the bound on the L2 norm of every member's update; None: members send whole models.
    """

    run: str
    number: int
    cluster: int
    purpose: str
    size: int
    profile: Profile
    weights: Mapping[int, float]
    attempt: int = 0
    factors: Mapping[int, int] | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        """Refuse a round that nobody could complete."""
        checks.choice("purpose", self.purpose, ("model", "sensitivity"))
        checks.whole("size", self.size, low=1)
        if not self.weights or min(self.weights.values()) <= 0 or abs(sum(self.weights.values()) - 1) > 1e-9:
            raise InvalidInput("weights", "are not positive shares of 1", "pass n_i / Σ n_j of the members")
        if self.factors is not None:
            self._check_factors(self.factors)
        if self.clip is not None:
            checks.number("clip", self.clip, low=0.0, high=1e6, open_low=True)

    @property
    def block(self) -> int:
        """Parameters a ciphertext."""
        return min(self.profile.slots, self.size)

    @property
    def blocks(self) -> int:
        """Ciphertexts of a model that is encrypted whole."""
        return -(-self.size // self.block)

    @property
    def factor_sum(self) -> int:
        """The largest sum of factors that a sum of uploads may have: that of all members."""
        return 1 if self.factors is None else sum(self.factors.values())

    def factor(self, client: int) -> int:
        """What the aggregator multiplies a member's values by."""
        return 1 if self.factors is None else self.factors[client]

    def share(self, client: int) -> float:
        """What a member multiplies its values by."""
        return self.weights[client] if self.factors is None else 1.0

    def divisor(self, contributors: Iterable[int]) -> float:
        """What the sum of these members' values is divided by: Σ p, or Σ n where the aggregator multiplies."""
        return sum(self.share(client) * self.factor(client) for client in contributors)

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

    def _check_factors(self, factors: Mapping[int, int]) -> None:
        if factors.keys() != self.weights.keys():
            raise InvalidInput("factors", "are not of the members", "pass one for each member")
        for factor in factors.values():
            checks.whole("factors", factor, low=1, high=2**40)
        total = sum(factors.values())
        if any(abs(factors[client] / total - weight) > 1e-9 for client, weight in self.weights.items()):
            raise InvalidInput(
                "factors", "are not in the proportion of the weights", "pass n_i for weights n_i / Σ n_j"
            )
