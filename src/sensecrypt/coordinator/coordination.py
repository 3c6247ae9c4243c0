"""The coordinator's state that all rounds share: the enrolled clients, and the selection of each round's members."""

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
_LEAST_SECONDS = 1e-3  # the shortest delay: clocks do not resolve less


class Registry:
    """The clients that have enrolled since the coordinator started."""

    def __init__(self, transport: Transport, members: Iterable[int], sketch_seed: bytes) -> None:
        """Start without enrolled clients.

        Args:
            transport: the transport to the clients.
            members: all clients that may enrol.
            sketch_seed: the seed of sketches.
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
        """The enrolled clients that were reachable at the last `look`."""
        return self._present & self.enrolments.keys()

    def look(self, *, seconds: float) -> None:
        """Update which clients are reachable, and enrol new ones; refusals are logged and recorded."""
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
            except Unanswered as error:  # it is asked again at the next look
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
        """Record the bandwidth of a client's first answer, if its time is known."""
        if reply.seconds is not None:
            sent = sum(map(len, reply.content.values()))
            self.bandwidths.setdefault(reply.client, sent / 1e6 / max(reply.seconds, _LEAST_SECONDS))

    def refuse(self, client: int, reason: str) -> None:
        """Remove an enrolled client; it may enrol again."""
        if client in self.enrolments:
            self._note(client, reason)
            del self.enrolments[client], self.facts[client]

    def exclude(self, client: int, reason: str) -> None:
        """Remove a client; it may not enrol again."""
        self.excluded.add(client)
        self.refuse(client, reason)

    def take_refusals(self) -> list[Refusal]:
        """Return and forget the refusals since the last call."""
        taken, self._refused = self._refused, []
        return taken

    def missing(self) -> list[int]:
        """Return the members that may enrol and have not."""
        return sorted(self._members - self.enrolments.keys() - self.excluded)

    def _note(self, client: int, reason: str) -> None:
        _LOG.warning("client %d is not enrolled: %s", client, reason)
        self.last_refusal = reason
        self._refused.append(Refusal(refused_client=client, refused=reason))


def sample_members(members: Sequence[int], sample: float, least: int, *, rng: np.random.Generator) -> list[int]:
    """Return a random sample of the members, ascending.

    Args:
        members: the members of a cluster.
        sample: the share of members if below 1, else their number; 0: all.
        least: the smallest number of members in a sample, if there are as many.
        rng: the generator.
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
    """The state and the settings that all rounds share.

    Attributes:
        name: the run's name.
        config: the run's configuration, with the devices that clients reported.
        transport: the transport to the clients.
        keyservice: the key service's interface for aggregators.
        public: the run's public key.
        folder: the folder of records and checkpoints.
        registry: the enrolled clients.
        registered: the key service's release rules, on which members' weights depend.
        patience: how long to wait.
        observer: is called with what passes the coordinator.
        durable: whether the key service outlives the coordinator, so that stored sums can be submitted again.
        seeded: whether members are sampled by the run's seed, as on one machine.
        cost_model: seconds per ciphertext in a calibrated run; None: use the measured times.
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
        """The release rules: the key service's, with the run's quorum if that is larger."""
        return replace(self.registered, quorum=max(self.registered.quorum, self.config.release.quorum))

    @property
    def ordered(self) -> bool:
        """Whether clusters have a secret order of their parameters."""
        return self.config.selection.layout == "prefix" and self.config.policy.ranks_by is not None

    @property
    def clients_decrypt(self) -> bool:
        """Whether clients share the key and decrypt sums themselves."""
        return self.config.encryption.key_mode == "shared-key"

    def is_refresh(self, number: int, budgets: checks.FloatVector) -> bool:
        """Return whether members with these budgets refresh their order after this round.

        If all of them encrypt everything, the order has no effect and is not refreshed.
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
        """Return the description of a round; without `members`, they are sampled from the cluster."""
        if members is None:
            release = self.config.release
            # In a fleet, the choice must not be predictable; on one machine, it must be reproducible.
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
        """Return the members to ask, and their empty sum."""
        cluster, weights, rules = round_.cluster, round_.weights, self.rules
        rng: random.Random = UNFORESEEN
        if self.seeded:  # on one machine, the cost of a run must be reproducible
            path = (cluster, round_.number, round_.attempt)
            rng = random.Random(derive_seed(self.config.problem.seed, f"parts of {round_.purpose}", *path))  # noqa: S311
        present = self.registry.present
        invited = self.exclusion.invited(cluster, weights, present=present, quorum=rules.quorum, rng=rng)
        if rules.fixed_groups:
            parts = make_groups(weights, rules.min_contributors)
        elif self.clients_decrypt:  # sums are not verified, so group testing is not possible
            parts = [invited]
        else:
            parts = self.exclusion.parts(cluster, invited, weights, rules, rng=rng)
        return invited, PartedSum(round_, self.public, parts, tags=self.keyservice.tags, whole=rules.fixed_groups)
