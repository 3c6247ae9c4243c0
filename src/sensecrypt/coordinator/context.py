"""What all rounds of a run share at the coordinator."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from sensecrypt.config import RunConfig
from sensecrypt.coordinator.checkpoint import RunState
from sensecrypt.coordinator.exclusion import UNFORESEEN, Exclusion
from sensecrypt.coordinator.ports import Observer, Patience, Transport
from sensecrypt.coordinator.registry import Registry
from sensecrypt.coordinator.sampling import sample_members
from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.keyservice.port import AggregatorKeyService
from sensecrypt.policies import get_policy
from sensecrypt.policies.policy import Policy
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.groups import make_groups
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import CostModel


@dataclass(frozen=True, eq=False)
class Coordination:
    """What all rounds share.

    Attributes:
        name: of the run.
        config: of the run, with the devices that clients reported.
        transport: the way to the clients.
        keyservice: the key service, as aggregator.
        public: the run's public key.
        folder: where records and checkpoints go.
        registry: who is enrolled.
        registered: the key service's rules for sums, which members' weights follow from.
        patience: how long to wait.
        observer: sees what passes.
        durable: whether the key service outlives the coordinator, so that sums on disk can be handed in again.
        seeded: whether members are sampled by the run's seed, as on one machine.
        cost_model: what cryptography is charged with in a calibrated run; None: as measured.
        exclusion: whose tags may be wrong.
    """

    name: str
    config: RunConfig
    transport: Transport
    keyservice: AggregatorKeyService
    public: EncryptionKey
    folder: RunFolder
    registry: Registry
    registered: ReleaseRules
    patience: Patience
    observer: Observer
    durable: bool = True
    seeded: bool = False
    cost_model: CostModel | None = None
    exclusion: Exclusion = field(default_factory=Exclusion)

    @property
    def policy(self) -> Policy:
        """Who encrypts what."""
        return get_policy(self.config.selection.policy)

    @property
    def rules(self) -> ReleaseRules:
        """For the sums that are handed in: the key service's, with the run's own quorum if that is larger."""
        return replace(self.registered, quorum=max(self.registered.quorum, self.config.release.quorum))

    @property
    def ordered(self) -> bool:
        """Whether clusters have a secret order of their parameters."""
        return self.config.selection.layout == "prefix" and self.policy.ranks_by is not None

    @property
    def clients_decrypt(self) -> bool:
        """Whether clients share the key, and open sums themselves."""
        return self.config.encryption.key_mode == "shared-key"

    def is_refresh(self, number: int) -> bool:
        """Whether a new order is due after this round."""
        due = (number + 1) % self.config.selection.order_refresh == 0 and number + 1 < self.config.training.rounds
        return due and self.ordered and self.policy.ranks_by == "sensitivity"

    def describe(
        self,
        state: RunState,
        cluster: int,
        number: int,
        purpose: str,
        attempt: int,
        *,
        members: Iterable[int] | None = None,
    ) -> Round:
        """What all members of a cluster's round agree on before it; None: as many of the cluster as `sample` says."""
        if members is None:
            release = self.config.release
            rng = self._rng(cluster, number)
            members = sample_members(state.members(cluster), release.sample, release.min_contributors, rng=rng)
        samples = {client: int(state.samples[client]) for client in members}
        weights, factors = self.registered.shares(samples, whole=self.config.encryption.weighting == "server")
        return Round(
            self.name,
            number,
            cluster,
            purpose,
            state.size,
            get_profile(self.config.encryption.profile),
            weights,
            attempt,
            factors,
            state.clip if purpose == "model" else None,
        )

    def _rng(self, cluster: int, number: int) -> np.random.Generator:
        """For choices that a fleet's aggregator must not foresee for others, and that one machine must repeat."""
        if self.seeded:
            return derive_rng(self.config.problem.seed, "sample", cluster, number)
        return np.random.default_rng(secrets.randbits(128))

    def invite(self, round_: Round) -> tuple[set[int], list[set[int]]]:
        """The members to ask, and the parts of their sum."""
        cluster, weights, present, rng = round_.cluster, round_.weights, self.registry.present, self._parts_rng(round_)
        invited = self.exclusion.invited(cluster, weights, present=present, quorum=self.rules.quorum, rng=rng)
        if self.rules.fixed_groups:
            return invited, make_groups(weights, self.rules.min_contributors)
        if self.clients_decrypt:  # nothing is verified, so nobody can be found
            return invited, [invited]
        return invited, self.exclusion.parts(cluster, invited, weights, self.rules, rng=rng)

    def _parts_rng(self, round_: Round) -> random.Random:
        """For who is in which part of a sum: on one machine the cost of a run must be the same again."""
        if not self.seeded:
            return UNFORESEEN
        path = (round_.cluster, round_.number, round_.attempt)
        return random.Random(derive_seed(self.config.problem.seed, f"parts of {round_.purpose}", *path))  # noqa: S311
