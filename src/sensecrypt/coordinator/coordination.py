"""What all rounds of a run share at the coordinator: who is enrolled, who takes part, round by round."""

from __future__ import annotations

import logging
import math
import random
import secrets
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sensecrypt.config import RunConfig
from sensecrypt.coordinator.checkpoint import RunState
from sensecrypt.coordinator.ports import Observer, Patience, Reply, Transport, Unanswered
from sensecrypt.coordinator.sums import UNFORESEEN, Exclusion
from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.keyservice.port import AggregatorKeyService
from sensecrypt.policies import get_policy
from sensecrypt.policies.policy import Policy
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.releaserules import ReleaseRules, make_groups
from sensecrypt.protocol.requests import Enrolment, Invitation, facts_from_bytes, require_parts
from sensecrypt.protocol.round import Round
from sensecrypt.records import Facts, Refusal
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import CostModel


def sample_members(members: Sequence[int], sample: float, least: int, *, rng: np.random.Generator) -> list[int]:
    """So many of the members, in ascending order.

    Args:
        members: of a cluster.
        sample: their share that takes part, if below 1; else how many; 0: all.
        least: never fewer than these, if there are as many.
        rng: draws.
    """
    if sample == 0:
        return list(members)
    if sample >= 1 and not float(sample).is_integer():
        raise InvalidInput("sample", f"is {sample:g}", "give a share below 1, or a whole number of clients")
    many = math.ceil(sample * len(members)) if sample < 1 else int(sample)
    many = min(len(members), max(many, least))
    return sorted(int(client) for client in rng.choice(np.asarray(members), size=many, replace=False))


_LOG = logging.getLogger("sensecrypt.coordinator")
_LEAST_SECONDS = 1e-3  # of a delay: no clock tells shorter ones apart


class Registry:
    """The clients that have enrolled since the coordinator started."""

    def __init__(self, transport: Transport, members: Iterable[int], sketch_seed: bytes) -> None:
        """Nobody yet; `members` are all who may come."""
        self._transport, self._members, self._sketch_seed = transport, set(members), sketch_seed
        self._asked: dict[int, Hashable] = {}
        self._present: set[int] = set()
        self._refused: list[Refusal] = []
        self.excluded: set[int] = set()
        self.last_refusal = ""
        self.enrolments: dict[int, Enrolment] = {}
        self.facts: dict[int, Facts] = {}
        self.bandwidths: dict[int, float] = {}  # megabytes per second of each client's first answer

    @property
    def present(self) -> set[int]:
        """The enrolled clients that could be asked at the last look."""
        return self._present & self.enrolments.keys()

    def look(self, *, seconds: float) -> None:
        """See who is there, and have those who are new enrol; one that is refused gets a line in the log."""
        there = self._transport.present(seconds=seconds)
        for refusal in self._transport.refusals():
            self.last_refusal = refusal.refused
            self._refused.append(refusal)
        self._present = set(there) - self.excluded
        self._asked = {client: token for client, token in self._asked.items() if there.get(client) == token}
        new = sorted(self._present - self._asked.keys())
        invitation = {"invitation": Invitation(self._sketch_seed).to_bytes()}
        for reply in self._transport.ask("enrol", dict.fromkeys(new, invitation), seconds=seconds):
            try:
                parts = require_parts(reply.content, needed={"enrolment", "facts"})
                enrolment = Enrolment.from_bytes(parts["enrolment"])
                facts = facts_from_bytes(parts["facts"], "enrol")
            except Unanswered as error:  # it is asked again
                _LOG.warning("client %d does not enrol: %s", reply.client, error)
                continue
            except SenseCryptError as error:
                self._asked[reply.client] = there[reply.client]
                self._note(reply.client, str(error))
                continue
            self._asked[reply.client] = there[reply.client]
            self.enrolments[reply.client], self.facts[reply.client] = enrolment, facts
            self.measure(reply)
            _LOG.info("client %d is enrolled", reply.client)

    def measure(self, reply: Reply) -> None:
        """Note how fast a client's first answer was, if that can be told."""
        if reply.seconds is not None:
            sent = sum(map(len, reply.content.values()))
            self.bandwidths.setdefault(reply.client, sent / 1e6 / max(reply.seconds, _LEAST_SECONDS))

    def refuse(self, client: int, reason: str) -> None:
        """Take a client that has enrolled off the list."""
        if client in self.enrolments:
            self._note(client, reason)
            del self.enrolments[client], self.facts[client]

    def exclude(self, client: int, reason: str) -> None:
        """Take a client off the list, and not back."""
        self.excluded.add(client)
        self.refuse(client, reason)

    def take_refusals(self) -> list[Refusal]:
        """Clients and peers that were refused since the last call, and why."""
        taken, self._refused = self._refused, []
        return taken

    def missing(self) -> list[int]:
        """Members that have not come, and may."""
        return sorted(self._members - self.enrolments.keys() - self.excluded)

    def _note(self, client: int, reason: str) -> None:
        _LOG.warning("client %d is not enrolled: %s", client, reason)
        self.last_refusal = reason
        self._refused.append(Refusal(refused_client=client, refused=reason))


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
