"""What all rounds of a run share at the coordinator: the enrolled clients, and who takes part in each round."""

from __future__ import annotations

import logging
import math
import random
import secrets
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sensecrypt import checks
from sensecrypt.config import RunConfig
from sensecrypt.coordinator.checkpoint import RunState
from sensecrypt.coordinator.ports import Observer, Patience, Reply, Transport, Unanswered
from sensecrypt.coordinator.sums import UNFORESEEN, Exclusion, PartedSum
from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.keyservice.port import AggregatorKeyService
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.releaserules import ReleaseRules, make_groups
from sensecrypt.protocol.requests import Enrolment, Invitation, facts_from_bytes, require_parts
from sensecrypt.protocol.round import Round
from sensecrypt.records import Facts, Refusal
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import CostModel

_LOG = logging.getLogger("sensecrypt.coordinator")
_LEAST_SECONDS = 1e-3  # of a delay: clocks do not resolve less


class Registry:
    """The clients that have enrolled since the coordinator started."""

    def __init__(self, transport: Transport, members: Iterable[int], sketch_seed: bytes) -> None:
        """No client yet.

        Args:
            transport: the way to the clients.
            members: all clients that may enrol.
            sketch_seed: of the sketches that describe their data.
        """
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
        """Note which clients are there, and have new ones enrol; the reason for a refusal is logged and recorded."""
        there = self._transport.present(seconds=seconds)
        for refusal in self._transport.refusals():
            self.last_refusal = refusal.refused
            self._refused.append(refusal)
        self._present = set(there) - self.excluded
        self._asked = {client: token for client, token in self._asked.items() if there.get(client) == token}
        new = sorted(self._present - self._asked.keys())
        requests = {client: {"invitation": Invitation(self._sketch_seed).to_bytes()} for client in new}
        for reply in self._transport.ask("enrol", requests, seconds=seconds):
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
        """Note how fast a client's first answer was, if it is known."""
        if reply.seconds is not None:
            sent = sum(map(len, reply.content.values()))
            self.bandwidths.setdefault(reply.client, sent / 1e6 / max(reply.seconds, _LEAST_SECONDS))

    def refuse(self, client: int, reason: str) -> None:
        """Remove an enrolled client; it may enrol again."""
        if client in self.enrolments:
            self._note(client, reason)
            del self.enrolments[client], self.facts[client]

    def exclude(self, client: int, reason: str) -> None:
        """Remove a client for good."""
        self.excluded.add(client)
        self.refuse(client, reason)

    def take_refusals(self) -> list[Refusal]:
        """Clients and peers that were refused since the last call, and why."""
        taken, self._refused = self._refused, []
        return taken

    def missing(self) -> list[int]:
        """Members that have not enrolled, and may."""
        return sorted(self._members - self.enrolments.keys() - self.excluded)

    def _note(self, client: int, reason: str) -> None:
        _LOG.warning("client %d is not enrolled: %s", client, reason)
        self.last_refusal = reason
        self._refused.append(Refusal(refused_client=client, refused=reason))


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
        registered: the key service's release rules, which members' weights follow from.
        patience: how long to wait.
        observer: sees what passes.
        durable: whether the key service outlives the coordinator, so that sums on disk can be handed in again.
        seeded: whether members are sampled by the run's seed, as on one machine.
        cost_model: what cryptography is charged with in a calibrated run; None: as measured.
        exclusion: finds clients whose tags do not match.
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
    def rules(self) -> ReleaseRules:
        """The rules that sums must meet: the key service's, with the run's own quorum if that is larger."""
        return replace(self.registered, quorum=max(self.registered.quorum, self.config.release.quorum))

    @property
    def ordered(self) -> bool:
        """Whether clusters have a secret order of their parameters."""
        return self.config.selection.layout == "prefix" and self.config.policy.ranks_by is not None

    @property
    def clients_decrypt(self) -> bool:
        """Whether clients share the key, and decrypt sums themselves."""
        return self.config.encryption.key_mode == "shared-key"

    def is_refresh(self, number: int, budgets: checks.FloatVector) -> bool:
        """Whether members with these budgets make a new order after this round.

        While all of them encrypt everything, the order that there is decides nothing, and stays.
        """
        due = (number + 1) % self.config.selection.order_refresh == 0 and number + 1 < self.config.training.rounds
        policy = self.config.policy
        everything = policy.uses_budget and self.config.selection.objective == "protect" and float(budgets.min()) >= 1
        return due and self.ordered and policy.ranks_by == "sensitivity" and not everything

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
        """What all members agree on before a round; its members are those given, or as many as `sample` says."""
        if members is None:
            release = self.config.release
            # A fleet's aggregator must not foresee the choice for other clients; one machine must repeat it.
            rng = np.random.default_rng(secrets.randbits(128))
            if self.seeded:
                rng = derive_rng(self.config.problem.seed, "sample", cluster, number)
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

    def invite(self, round_: Round) -> tuple[set[int], PartedSum]:
        """The members to ask, and their empty sum."""
        cluster, weights, rules = round_.cluster, round_.weights, self.rules
        rng: random.Random = UNFORESEEN
        if self.seeded:  # on one machine a run must cost the same again
            path = (cluster, round_.number, round_.attempt)
            rng = random.Random(derive_seed(self.config.problem.seed, f"parts of {round_.purpose}", *path))  # noqa: S311
        present = self.registry.present
        invited = self.exclusion.invited(cluster, weights, present=present, quorum=rules.quorum, rng=rng)
        if rules.fixed_groups:
            parts = make_groups(weights, rules.min_contributors)
        elif self.clients_decrypt:  # nothing is verified, so no client can be found
            parts = [invited]
        else:
            parts = self.exclusion.parts(cluster, invited, weights, rules, rng=rng)
        return invited, PartedSum(round_, self.public, parts, tags=self.keyservice.tags, whole=rules.fixed_groups)
