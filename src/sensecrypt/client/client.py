"""One client of one run, for any transport: it answers the coordinator's messages and calls the key service itself.

The client gets round descriptions, seeds, orders and models from the key service. It gets only addresses of rounds, a
budget, whether to send sensitivities and, in methods with two exchanges, the agreed mask from the coordinator.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sensecrypt import checks
from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.client.exchanges import ExchangeFiles
from sensecrypt.client.identity import Identity
from sensecrypt.client.replayguard import ReplayGuard
from sensecrypt.client.scoring import clustering_gains, describe_gains, rank_parameters
from sensecrypt.client.update import Task, make_update, train_and_propose
from sensecrypt.errors import InvalidInput, Rejected, SenseCryptError
from sensecrypt.files import make_folder
from sensecrypt.keyservice.port import ClientKeyService
from sensecrypt.models import named_arrays
from sensecrypt.protocol.answers import RoundTask
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.protocol.requests import Assignment, Enrolment, Invitation, Parts, facts_to_bytes
from sensecrypt.protocol.round import Round, RoundAddress, address_of
from sensecrypt.protocol.updates import model_from
from sensecrypt.records import Facts, to_fields
from sensecrypt.runs.folder import RunFolder
from sensecrypt.runs.noise import noise_is_on
from sensecrypt.types import BoolVector

NO_PART = "this client does not take part; the reason is in its own log"
_LOG = logging.getLogger("sensecrypt.client")
_NOISED = "noised.safetensors"  # this client's noised sensitivities for clustering


@dataclass(frozen=True, eq=False)
class Client:
    """A client of one run.

    Attributes:
        number: the client's number.
        run: the run's name.
        context: settings, model, data and key.
        initial: the model before the first round.
        clip: the bound on its updates; None: it sends whole models.
        keyservice: the connection to the key service.
        folder: the folder of its persistent files.
        accuracy: measures a model on its own data; None: it reports no accuracy.
        identity: its identity and conditions; None in a run on one machine.
        guard: the guard against replayed rounds and runs; None in a run on one machine.
    """

    number: int
    run: str
    context: ClientContext
    initial: Vector
    clip: float | None
    keyservice: ClientKeyService
    folder: Path
    accuracy: Callable[[Vector], float] | None = None
    identity: Identity | None = None
    guard: ReplayGuard | None = None

    def answer(self, kind: str, parts: Mapping[str, bytes]) -> Parts:
        """Return this client's reply to a message of that kind; raise if it cannot reply."""
        if kind == "enrol":
            return self.enrol(Invitation.from_bytes(parts["invitation"]).sketch_seed)
        assignment = Assignment.from_bytes(parts["assignment"])
        if kind == "rank":
            return self.rank(assignment)
        if kind == "propose":
            return self.propose(assignment)
        if kind == "train":
            return self.train(assignment, parts.get("agreed"))
        if kind == "finish":
            return self.finish(assignment)
        raise Rejected(f"a message of kind {kind[:20]!r}")

    def enrol(self, sketch_seed: bytes) -> Parts:
        """Return this client's description, with a sketch of its sensitivities that the key service has rotated."""
        config, row, facts = self.context.config, np.empty(0), Facts()
        if self.guard is not None:
            self.guard.require_unused(self.initial)
        if config.groups.clustering != "none":
            if (
                config.groups.sensitivities == "clear"
                and self.identity is not None
                and not self.identity.clear_sensitivities
            ):
                raise Rejected("the run asks for sensitivities in the clear, which this client does not send")
            if self.guard is not None:
                self.guard.claim(self.initial)
            seed = sketch_seed if config.groups.sensitivities == "sketch" else None
            try:
                described = describe_gains(*self._gains(), seed)
            except SenseCryptError as error:
                raise self._no_part("nothing is sent", error) from None
            row, facts = described.row, described.facts
            if seed is not None:
                row = self.keyservice.rotate_sketch(self.run, row)
        self.keyservice.report_samples(self.run, self.context.samples(self.number))
        enrolment = Enrolment(
            size=self.initial.size,
            initial=hashlib.sha256(self.initial.tobytes()).hexdigest(),
            clip=self.clip,
            row=row,
            cpus=None if self.identity is None else self.identity.cpus,
            bandwidth=None if self.identity is None else self.identity.bandwidth,
        )
        return {"enrolment": enrolment.to_bytes(), "facts": facts_to_bytes(facts)}

    def rank(self, assignment: Assignment) -> Parts:
        """Return encrypted scores of the initial model's parameters."""
        if self.guard is not None:
            self.guard.rank(assignment)
        self.context.key.encrypt([0])  # builds the key's tables before time is measured: budgets depend on it
        task = self._fetch(assignment, "sensitivity")
        if self.guard is not None:
            self.guard.claim(self.initial)
        try:
            protected, facts = rank_parameters(self.context, self.number, self.initial, task.round, task.seed)
        except SenseCryptError as error:
            raise self._no_part("parameters are not ranked", error) from None
        self.keyservice.send_tag(protected.tag, task.round)
        return {"sensitivity": protected.upload, "facts": facts_to_bytes(facts)}

    def propose(self, assignment: Assignment) -> Parts:
        """Train, and return the blocks to encrypt; the trained model is kept for the second exchange."""
        if self.guard is not None:
            self.guard.begin(assignment)
        task = self._task(assignment, None)
        message, trained = train_and_propose(self.context, task)
        self._exchange_files.keep_trained(assignment, trained)
        return {"proposal": message}

    def train(self, assignment: Assignment, agreed: bytes | None) -> Parts:
        """Train, select and encrypt; send the tag to the key service and return the upload."""
        policy, trained = self.context.config.policy, None
        if agreed is not None and policy.propose is None:
            raise Rejected("an agreed mask, but the run's policy has no agreement")
        if policy.propose is not None:
            trained = self._exchange_files.trained(assignment)
        elif self.guard is not None:
            self.guard.begin(assignment)
        if policy.encrypts:
            self.context.key.encrypt([0])  # builds the key's tables, as in `rank`
        task = self._task(assignment, agreed)
        try:
            update = make_update(self.context, task, trained)
        except SenseCryptError as error:
            raise self._no_part("nothing is sent", error) from None
        if task.agreed is not None:
            self._exchange_files.keep_mask(update.mask)
        facts, share = update.facts, update.mask.share
        if self.identity is not None:
            least = self.identity.required_share(only_blinds=self.context.blinded and not policy.encrypts)
            if share < least:
                problem = f"{share:.0%} would be encrypted, but this client requires {least:.0%}"
                raise Rejected(f"{problem}: its budget is {task.budget:.2f}")
        self.keyservice.send_tag(update.model.tag, task.round)
        if assignment.start is not None and self.accuracy is not None:
            facts = replace(facts, accuracy=self.accuracy(task.vector))
        parts = {"upload": update.model.upload, "facts": facts_to_bytes(facts)}
        if task.refresh is not None and update.sensitivity is not None:
            self.keyservice.send_tag(update.sensitivity.tag, task.refresh[0])
            parts["sensitivity"] = update.sensitivity.upload
        if self.context.config.machines.messages == "keep":
            parts["own"] = serialize("own", {}, {"sent": update.sent})
        return parts

    def finish(self, assignment: Assignment) -> Parts:
        """Fetch and store the final model; return its accuracy and its hash."""
        if self.guard is not None:
            self.guard.require_latest(assignment)
        vector = self._start(assignment)
        folder = RunFolder(self.folder)
        make_folder(folder.path)
        folder.save_model(assignment.cluster, named_arrays(self.context.model(vector)))
        digest = hashlib.sha256(vector.tobytes()).hexdigest().encode()
        accuracy = None if self.accuracy is None else self.accuracy(vector)
        return {"facts": facts_to_bytes(Facts(accuracy=accuracy)), "model_sha256": digest}

    def _no_part(self, what: str, error: SenseCryptError) -> Rejected:
        """Return the refusal of a client that takes no part; a fleet's hides the reason, which may depend on data."""
        _LOG.warning("%s, because: %s", what, error)
        return Rejected(NO_PART if self.context.discreet else str(error))

    def _task(self, assignment: Assignment, agreed: bytes | None) -> Task:
        """Return this client's part in a round, with round, seeds, order and model from the key service."""
        given = self._fetch(assignment, "model")
        vector, round_ = self._start(assignment), given.round
        if self.guard is not None:
            self.guard.claim(vector)
        refresh = None
        if assignment.refresh and given.after is not None:
            refresh = (given.after, given.after_seed)
        order = ranking = exposed = None
        if self.context.config.policy.ranks_by is not None:
            in_slots = self.context.config.selection.layout == "prefix"
            if given.ranking is None and (in_slots or self.context.config.policy.ranks_by == "jacobian"):
                raise Rejected("the key service has no order of the parameters for this round")
            if in_slots:
                order = given.ranking
            elif given.ranking is not None:
                ranking = given.ranking.order
        if self.context.config.policy.propose is not None:
            exposed = self._exchange_files.exposed(assignment, self.initial, vector)
        flags, budget = None if agreed is None else _flags(agreed, round_), assignment.budget
        return Task(self.number, round_, vector, order, ranking, exposed, budget, given.seed, refresh, flags)

    @property
    def _exchange_files(self) -> ExchangeFiles:
        return ExchangeFiles(self.folder)

    def _fetch(self, assignment: Assignment, purpose: str) -> RoundTask:
        """Fetch this client's task from the key service and check it against the assignment."""
        place = RoundAddress(self.run, assignment.number, assignment.cluster, purpose, assignment.attempt)
        given = self.keyservice.task(place)
        if address_of(given.round) != place:
            raise Rejected("the key service answered with another round")
        if purpose == "model" and given.round.clip != self.clip:
            bound = "none" if self.clip is None else f"{self.clip:g}"
            raise Rejected(f"the round bounds updates by {given.round.clip or 'nothing'}, but this client by {bound}")
        if assignment.refresh and given.after is None:
            raise Rejected("the coordinator requests sensitivities, but the key service expects none")
        if self.identity is not None:
            self.identity.conditions.require_round(given.round, self.number)
            if assignment.refresh and given.after is not None:
                self.identity.conditions.require_round(given.after, self.number)
        return given

    def _start(self, assignment: Assignment) -> Vector:
        """Return the start model, checked against the previous one."""
        if assignment.start is None:
            return self.initial
        number, attempt = assignment.start
        place = RoundAddress(self.run, number, assignment.cluster, "model", attempt)
        moved = self.keyservice.moved(place, self.initial.size)
        if self.guard is not None and self.clip is not None:
            try:
                rule = self.context.config.server.rule
                reach, many = rule.reach(self.clip), rule.statistics
                self.guard.check_start(moved, self.initial.size, number, reach=reach, statistics=many)
            except InvalidInput as error:  # the aggregator must not learn the distance between a cluster's models
                _LOG.warning("round %d: nothing is trained, because: %s", assignment.number, error)
                raise Rejected(NO_PART) from None
        return model_from(self.initial, moved, self.clip)

    def _gains(self) -> tuple[checks.FloatVector, Facts]:
        """Return this client's sensitivities for clustering; noise is added once per run.

        Averaging the same vector under fresh noise many times would reveal it. So the noised vector is stored and sent
        again.
        """
        path = self.folder / _NOISED
        if path.exists():  # even if the run's settings no longer have noise
            header, tensors = parse_any(path.read_bytes(), "noised")
            return tensors["gains"], Facts(**json.loads(header["facts"]))
        gains, facts = clustering_gains(self.context, self.number, self.initial)
        if noise_is_on(self.context.config):
            make_folder(self.folder)
            RunFolder(self.folder).write(
                _NOISED, serialize("noised", {"facts": json.dumps(to_fields(facts))}, {"gains": gains})
            )
        return gains, facts


def _flags(agreed: bytes, round_: Round) -> BoolVector:
    """Return one flag per block from the bits of the agreed mask."""
    if len(agreed) != -(-round_.blocks // 8):
        raise Rejected(f"a mask of {len(agreed)} bytes, but the round has {round_.blocks:,} blocks")
    return np.unpackbits(np.frombuffer(agreed, dtype=np.uint8), count=round_.blocks).astype(bool)
