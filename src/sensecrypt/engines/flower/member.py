"""One client of a fleet, whatever carries its messages: it does what it is assigned, and asks the key service itself.

Round descriptions, seeds, orders and models come from the key service, under the client's own certificate; from the
aggregator come only addresses of rounds, a budget, and whether to send sensitivities.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable

import numpy as np

from sensecrypt import checks
from sensecrypt.algo.clipping import check_start, clip_bound
from sensecrypt.config import RunConfig
from sensecrypt.engines.flower.diary import Diary
from sensecrypt.engines.flower.laststart import LastStart
from sensecrypt.engines.flower.messages import Assignment, Enrolment, facts_to_bytes
from sensecrypt.engines.flower.party import LEAST_SHARE, Party
from sensecrypt.engines.flower.proof import Statement, prove
from sensecrypt.engines.flower.settings import Settings
from sensecrypt.engines.flower.starts import Starts
from sensecrypt.engines.flower.wire import Parts
from sensecrypt.engines.meter import Meter, MeteredKey
from sensecrypt.engines.noise import noise_is_on
from sensecrypt.engines.outcome import Record
from sensecrypt.engines.problem import Share, always_of
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.engines.training import Fit, accuracy_on
from sensecrypt.engines.work import (
    Done,
    Facts,
    Task,
    Vector,
    World,
    clustering_gains,
    describe_gains,
    play_round,
    seal_ranking,
)
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.files import make_folder
from sensecrypt.models import get_vector, layout, set_vector
from sensecrypt.policies import get_policy
from sensecrypt.protocol.envelope import seal, unseal_any
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import model_of
from sensecrypt.services.dkms.addresses import Place
from sensecrypt.services.dkms.client import DkmsClient

Load = Callable[[RunConfig, int], Share]
NO_PART = "this client takes no part; the reason is in its own log"
_LOG = logging.getLogger("sensecrypt.client")
_NOISED = "noised.safetensors"  # what this client sends for clustering, where noise is added


def prove_identity(settings: Settings, party: Party, dkms: DkmsClient, statement: Statement) -> Parts:
    """The proof which client this is, if the run meets its conditions; no data are loaded for it."""
    _admit(settings, party, dkms)
    return {"proof": prove(statement, certificate=party.certificate, key=party.key)}


def _admit(settings: Settings, party: Party, dkms: DkmsClient) -> int:
    """This client's number in a run that meets its conditions, or `Rejected`."""
    told = dkms.run(settings.run)
    party.conditions.require_run(settings.config, told)
    return int(told["client"])


class Member:
    """A client of one run."""

    def __init__(
        self, settings: Settings, party: Party, dkms: DkmsClient, load: Load, *, fit: Fit | None = None
    ) -> None:
        """Learn from the key service which client this is, and load its data."""
        self._settings, self._party, self._dkms = settings, party, dkms
        config = settings.config
        self.client = _admit(settings, party, dkms)
        self._share = load(config, self.client)
        self._starts = Starts(party.state, self._share.data)
        initial = self._share.build()
        self._initial: Vector = get_vector(initial)
        self._clip = clip_bound(config.clip, self._initial) if config.uploads == "updates" else None
        self._public = dkms.public_key(settings.run)
        key = MeteredKey(self._public, Meter(None), ahead=config.randomness == "ahead")
        always = always_of(config, initial, self._share.classes)
        data = {self.client: self._share.data}
        padded = config.padded or party.rest == "padded"
        local = party.conditions.batches == "local"
        self._world = World(
            config, self._share.build, data, key, always=always, fit=fit, padded=padded, discreet=True, local=local
        )

    def enrol(self, sketch_seed: bytes) -> Parts:
        """Describe this client and its data for clustering: by a sketch that the key service turns."""
        config, row, facts = self._settings.config, np.empty(0), {}
        self._starts.require_unused(self._initial, self._settings.run)
        if config.clustering != "none":
            if config.sensitivities == "clear" and not self._party.clear_sensitivities:
                raise Rejected("the run asks for sensitivities in the clear, which this client does not send")
            self._starts.claim(self._initial, self._settings.run)
            seed = sketch_seed if config.sensitivities == "sketch" else None
            described = describe_gains(*self._gains(), seed)
            row, facts = described.row, described.facts
            if seed is not None:
                row = self._dkms.turn_sketch(self._settings.run, row)
        self._dkms.tell_samples(self._settings.run, len(self._share.data[1]))
        enrolment = Enrolment(
            size=self._initial.size,
            initial=hashlib.sha256(self._initial.tobytes()).hexdigest(),
            clip=self._clip,
            row=row,
            cpus=self._party.cpus,
            bandwidth=self._party.bandwidth,
        )
        return {"enrolment": enrolment.to_bytes(), "facts": facts_to_bytes(facts)}

    def _gains(self) -> tuple[checks.FloatVector, Facts]:
        """This client's sensitivities for clustering; noise is added once per run, whoever asks how often.

        Who saw the same vector under fresh noise again and again could average the noise away. So what was noised is
        kept, and sent again.
        """
        folder = RunFolder(self._party.state / self._settings.run)
        path = folder.path / _NOISED
        if path.exists():
            header, tensors = unseal_any(path.read_bytes(), "noised")
            return tensors["gains"], json.loads(header["facts"])
        gains, facts = clustering_gains(self._world, self.client, self._initial)
        if noise_is_on(self._settings.config):
            make_folder(folder.path)
            folder.write(_NOISED, seal("noised", {"facts": json.dumps(facts)}, {"gains": gains}))
        return gains, facts

    def rank(self, assignment: Assignment) -> Parts:
        """Sensitivities of the initial model, encrypted."""
        Diary(self._party.state / self._settings.run).rank(assignment)
        self._public.encrypt(
            [0]
        )  # builds tables, which is no work of encrypting a model: budgets go by what that takes
        round_ = self._round(assignment, "sensitivity")
        self._starts.claim(self._initial, self._settings.run)
        done = seal_ranking(self._world, self.client, self._initial, round_, self._dkms.receipt_seed(round_))
        if done.sensitivity is None:
            _LOG.warning("parameters are not ranked, because: %s", done.failure)
            raise Rejected(NO_PART)
        self._dkms.send_receipt(done.sensitivity.receipt, round_)
        return {"sensitivity": done.sensitivity.upload, "facts": facts_to_bytes(done.facts or {})}

    def play(self, assignment: Assignment) -> Parts:
        """Train, choose, encrypt; the receipt goes to the key service, the upload back to the aggregator."""
        Diary(self._party.state / self._settings.run).begin(assignment)
        if self._settings.config.policy != "plaintext":
            self._public.encrypt([0])  # as in `rank`
        round_ = self._round(assignment, "model")
        vector, received = self._start(assignment)
        self._starts.claim(vector, self._settings.run)
        facts: Record = {"bytes_down": received}
        if assignment.start is not None and self._party.tell_accuracy:
            facts["accuracy"] = self._accuracy(vector)
        refresh = None
        if assignment.refresh:
            after = self._round(assignment, "sensitivity", after=1)
            refresh = (after, self._dkms.receipt_seed(after))
        order = profile = None
        if self._settings.config.layout == "prefix" and get_policy(self._settings.config.policy).ranks_by is not None:
            ranking = self._dkms.ranking(round_)
            if ranking is None:
                raise Rejected("the key service has no order of the parameters for this round")
            order, profile = ranking.order, ranking.profile
            facts["bytes_down"] += 4 * order.size + profile.nbytes
        seed = self._dkms.receipt_seed(round_)
        done = play_round(
            self._world,
            Task(self.client, round_, vector, order, profile, None, None, assignment.budget, seed, refresh),
        )
        return self._send(done, round_, refresh[0] if refresh else None, facts)

    def finish(self, assignment: Assignment) -> Parts:
        """Fetch the final model, keep it, and tell how good it is and its hash."""
        Diary(self._party.state / self._settings.run).require_latest(assignment)
        vector, received = self._start(assignment)
        folder = RunFolder(self._party.state / self._settings.run)
        make_folder(folder.path)
        folder.save_model(assignment.cluster, vector, layout(self._share.build()))
        digest = hashlib.sha256(vector.tobytes()).hexdigest().encode()
        facts: Record = {"bytes_down": received}
        if self._party.tell_accuracy:
            facts["accuracy"] = self._accuracy(vector)
        return {"facts": facts_to_bytes(facts), "model_sha256": digest}

    def _send(self, done: Done, round_: Round, after: Round | None, facts: Record) -> Parts:
        if done.model is None or done.facts is None:
            _LOG.warning("nothing is sent, because: %s", done.failure)
            raise Rejected(NO_PART)
        share, least = done.facts["encrypted_share"], self._least_share
        if share < least:
            told = f"{share:.0%} would be encrypted, this client wants {least:.0%}"
            raise Rejected(f"{told}: its budget is {done.facts['budget']:.2f}")
        self._dkms.send_receipt(done.model.receipt, round_)
        parts = {"upload": done.model.upload, "facts": facts_to_bytes({**done.facts, **facts})}
        if after is not None and done.sensitivity is not None:
            self._dkms.send_receipt(done.sensitivity.receipt, after)
            parts["sensitivity"] = done.sensitivity.upload
        return parts

    @property
    def _least_share(self) -> float:
        """What the party file says, to the letter; if it says nothing, pads are as good in a run of pads alone."""
        if self._party.least_share is not None:
            return self._party.least_share
        pads_alone = self._settings.config.policy == "plaintext" and self._world.padded
        return 0.0 if pads_alone else LEAST_SHARE

    def _round(self, assignment: Assignment, purpose: str, *, after: int = 0) -> Round:
        number, attempt = assignment.number + after, assignment.attempt
        round_ = self._dkms.round(Place(self._settings.run, number, assignment.cluster, purpose, attempt))
        if purpose == "model" and round_.clip != self._clip:
            bound = "none" if self._clip is None else f"{self._clip:g}"
            raise Rejected(f"the round bounds updates by {round_.clip or 'nothing'}, this client by {bound}")
        self._party.conditions.require_round(round_, self.client)
        return round_

    def _start(self, assignment: Assignment) -> tuple[Vector, int]:
        """The model to start from, checked against the last one, and how many bytes came for it."""
        last = LastStart(self._party.state / self._settings.run)
        if assignment.start is None:
            return self._initial, 0
        number, attempt = assignment.start
        round_ = self._dkms.round(Place(self._settings.run, number, assignment.cluster, "model", attempt))
        moved = self._dkms.moved(round_)
        if self._clip is not None:
            before, then = last.read(size=self._initial.size)
            try:
                check_start(moved, before, norm=self._clip, rounds=max(number - then, 0))
            except InvalidInput as error:  # how far the models of a cluster are apart is not for the aggregator
                _LOG.warning("round %d: nothing is trained, because: %s", assignment.number, error)
                raise Rejected(NO_PART) from None
            last.write(moved, number)
        return model_of(self._initial, moved, round_), moved.nbytes

    def _accuracy(self, vector: Vector) -> float:
        model = self._share.build()
        set_vector(model, vector)
        return accuracy_on(model, self._share.test, self._share.data[1], self._share.classes)
