"""One cluster's round: the parameters that all members agree on before it starts, its address, and its message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sensecrypt import checks
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.profiles import Profile, get_profile
from sensecrypt.protocol.envelope import parse, serialize


@dataclass(frozen=True)
class Round:
    """One cluster's round.

    Attributes:
        run: the run's name.
        number: the round's number, from 0.
        cluster: the cluster's number.
        purpose: `model`; or `sensitivity`: the sum that gives a cluster its order.
        size: number of parameters of the model.
        profile: the encryption profile.
        weights: p of every member; they sum to 1.
        attempt: how often the round was started before.
        factors: n of every member, by which the aggregator multiplies the member's upload; None: members multiply by p
            before they encrypt.
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
        """Refuse a round that cannot be completed."""
        checks.choice("purpose", self.purpose, ("model", "sensitivity"))
        checks.whole("size", self.size, low=1)
        if not self.weights or min(self.weights.values()) <= 0 or abs(sum(self.weights.values()) - 1) > 1e-9:
            raise InvalidInput("weights", "are not positive shares of 1", "pass n_i / Σ n_j of the members")
        most = self.profile.max_summands
        if most is not None and len(self.weights) > most:
            problem = (
                f"has {len(self.weights):,} members, but sums of {self.profile.name} are exact up to {most:,} uploads"
            )
            raise InvalidInput("weights", problem, "set sample to fewer clients, or choose a paillier profile")
        if self.factors is not None:
            self._check_factors(self.factors)
        if self.clip is not None:
            checks.number("clip", self.clip, low=0.0, high=1e6, open_low=True)

    @property
    def block(self) -> int:
        """Parameters per ciphertext."""
        return min(self.profile.slots, self.size)

    @property
    def blocks(self) -> int:
        """Ciphertexts of a fully encrypted model."""
        return -(-self.size // self.block)

    @property
    def factor_sum(self) -> int:
        """The sum of all members' factors: an upper bound for every sum of uploads."""
        return 1 if self.factors is None else sum(self.factors.values())

    def factor(self, client: int) -> int:
        """Return the number by which the aggregator multiplies a member's values."""
        return 1 if self.factors is None else self.factors[client]

    def share(self, client: int) -> float:
        """Return the number by which a member multiplies its values."""
        return self.weights[client] if self.factors is None else 1.0

    def divisor(self, contributors: Iterable[int]) -> float:
        """Return the divisor of a sum of these members' values: Σ p, or Σ n if the aggregator multiplies."""
        return sum(self.share(client) * self.factor(client) for client in contributors)

    @property
    def header(self) -> dict[str, str | int]:
        """The fields that every message of this round has."""
        return {
            "run": self.run,
            "round": self.number,
            "attempt": self.attempt,
            "cluster": self.cluster,
            "purpose": self.purpose,
        }

    def _check_factors(self, factors: Mapping[int, int]) -> None:
        if factors.keys() != self.weights.keys():
            raise InvalidInput("factors", "are not of the members", "pass one factor per member")
        for factor in factors.values():
            checks.whole("factors", factor, low=1, high=2**40)
        total = sum(factors.values())
        if any(abs(factors[client] / total - weight) > 1e-9 for client, weight in self.weights.items()):
            raise InvalidInput("factors", "are not proportional to the weights", "pass n_i for weights n_i / Σ n_j")


@dataclass(frozen=True)
class RoundAddress:
    """The identification of a round in requests and stores."""

    run: str
    number: int
    cluster: int
    purpose: str
    attempt: int

    @property
    def round(self) -> tuple[str, int, int, str]:
        """The address without the attempt."""
        return self.run, self.number, self.cluster, self.purpose

    @property
    def all(self) -> tuple[str, int, int, str, int]:
        """The address with the attempt."""
        return (*self.round, self.attempt)


def address_of(round_: Round) -> RoundAddress:
    """Return the address of a round."""
    return RoundAddress(round_.run, round_.number, round_.cluster, round_.purpose, round_.attempt)


_FIELDS = {
    "run": str,
    "round": int,
    "attempt": int,
    "cluster": int,
    "purpose": str,
    "size": int,
    "profile": str,
    "clip": str,
}
_WHOLE_MODELS = "none"  # clip of a round whose members send models, not updates
_TENSORS = {"clients": (np.dtype("<i8"), 1), "weights": (np.dtype("<f8"), 1)}


def describe_round(round_: Round) -> bytes:
    """Return the message: members ascending, with weights. Factors raise: a fleet's aggregator does not multiply."""
    if round_.factors is not None:
        fix = "let clients multiply by their weights"
        raise InvalidInput("factors", "are not possible in a fleet", fix)
    clients = sorted(round_.weights)
    tensors = {
        "clients": np.array(clients, dtype="<i8"),
        "weights": np.array([round_.weights[client] for client in clients], dtype="<f8"),
    }
    clip = _WHOLE_MODELS if round_.clip is None else round_.clip.hex()
    fields = {**round_.header, "size": round_.size, "profile": round_.profile.name, "clip": clip}
    return serialize("round", fields, tensors)


def read_round(data: bytes) -> Round:
    """Parse the message of a round; raise `Rejected` if it is invalid."""
    fields, arrays = parse(data, "round", header=_FIELDS, tensors=_TENSORS)
    clients, weights = arrays["clients"], arrays["weights"]
    if clients.size != weights.size or clients.size == 0:
        raise Rejected("a round has members, each with one weight")
    if int(clients.min()) < 0 or (np.diff(clients) <= 0).any() or not np.isfinite(weights).all():
        raise Rejected("members are numbered from 0, ascending, with finite weights")
    if min(fields["round"], fields["attempt"], fields["cluster"]) < 0:
        raise Rejected("rounds, attempts and clusters are numbered from 0")
    try:
        clip = None if fields["clip"] == _WHOLE_MODELS else float.fromhex(fields["clip"])
        return Round(
            fields["run"],
            fields["round"],
            fields["cluster"],
            fields["purpose"],
            fields["size"],
            get_profile(fields["profile"]),
            dict(zip(clients.tolist(), weights.tolist(), strict=True)),
            fields["attempt"],
            clip=clip,
        )
    except InvalidInput as error:
        raise Rejected(f"an impossible round: {error.argument} {error.problem}"[:200]) from None
    except (ValueError, OverflowError):
        raise Rejected("an impossible round: clip is not a number") from None
