"""What an adversary observes of a client in a recorded run, from the messages that its role received only.

eavesdropper        the client's uploads; the initial model, which is public
aggregator          all uploads, its own sums, and Γ if clients send it in the clear
aggregator+client   also what another member of the cluster knows: the models, the order, its own weights

The aggregator knows which slots are plain, but in the prefix layout not which parameter a slot holds: there it has
values without positions. Blinded values are treated like encrypted ones: they carry no information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sensecrypt import checks
from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client.problem import Problem, configured_problem
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.observation import FloatVector, Observation, Unplaced
from sensecrypt.models import always_encrypt, get_vector
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.envelope import parse_any
from sensecrypt.protocol.messages import Aggregate, Upload
from sensecrypt.protocol.protection import model_format
from sensecrypt.protocol.round import Round
from sensecrypt.records import SETUP, clients_of
from sensecrypt.rng import derive_rng
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.keys import release_rules
from sensecrypt.types import BoolVector, Mask

ADVERSARIES = ("eavesdropper", "aggregator", "aggregator+client")
PUBLIC_PER_CLASS = 50

IntVector = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Observed:
    """An observation, and the truth that scores need.

    Attributes:
        observation: all that an attack may use.
        counts: the client's true class histogram.
        encrypted: share of the parameters that the client encrypted.
        recovered: share of its encrypted parameters that collusion gave back exactly, by subtraction.
        attributed: share of the parameters that were plain and whose position the adversary knows.
    """

    observation: Observation
    counts: IntVector
    encrypted: float
    recovered: float
    attributed: float


def observe_run(folder: RunFolder, *, number: int, client: int, adversary: str) -> Observed:
    """What `adversary` saw of `client` in round `number`."""
    checks.choice("adversary", adversary, ADVERSARIES)
    run = _Recording(folder)
    checks.whole("client", client, low=0, high=run.config.problem.clients - 1)
    colluder = run.partner_of(client) if adversary == "aggregator+client" else None
    aggregates = adversary != "eavesdropper"
    sent, hidden = run.upload_of(client, number, colluder)
    recovered = 0.0
    if colluder is not None:
        shared = run.config.encryption.key_mode == "shared-key"  # then every member can decrypt every upload
        back = run.own(client, number) if shared else run.subtracted(client, number, colluder)
        lost = int(np.count_nonzero(hidden))
        recovered = float(np.count_nonzero(hidden & ~np.isnan(back)) / lost) if lost else 0.0
        sent = np.where(np.isnan(sent), back, sent)
    before = run.model_before(client, number, colluder, aggregates=aggregates)
    steps = run.config.training.local_epochs * -(-run.samples[client] // run.config.training.batch_size)
    scale = run.config.training.learning_rate * steps
    gradient = run.gradient(sent, before, scale)
    known = np.where(np.isnan(before), run.initial, before)
    channels, height, width = run.problem.test[0].shape[1:]
    return Observed(
        Observation(
            build=run.problem.build,
            before=known.astype(np.float32),
            gradient=gradient,
            samples=run.samples[client],
            classes=run.problem.classes,
            stale=run.stale(client, number, colluder, scale, aggregates=aggregates),
            sensitivity=run.description(client) if aggregates and number == 0 else None,
            unplaced=run.unplaced(client, number, scale, aggregates=aggregates) if colluder is None else None,
            mask=run.mask(client, number, colluder),
            public=run.public(),
            image_shape=(int(channels), int(height), int(width)),
        ),
        np.bincount(run.problem.clients[client][1].numpy(), minlength=run.problem.classes),
        float(hidden.mean()),
        recovered,
        float((~np.isnan(gradient)).mean()),
    )


class _Recording:
    """A run folder whose messages were kept."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.config = folder, folder.read_config()
        checkpoint = folder.load_checkpoint()
        if checkpoint is None:
            raise InvalidInput(str(folder.path), "has no complete round", "continue the run with --resume")
        self.labels = checkpoint[1]["labels"]
        self.problem: Problem = configured_problem(self.config)
        self.samples = [len(labels) for _, labels in self.problem.clients]
        initial = get_vector(self.problem.build())
        self.initial = initial.astype(np.float64)
        self.clip = (
            clip_bound(self.config.training.clip, initial) if self.config.training.uploads == "updates" else None
        )

    def partner_of(self, client: int) -> int:
        """Another member of the client's cluster: the one that colludes."""
        others = [int(each) for each in np.flatnonzero(self.labels == self.labels[client]) if each != client]
        if not others:
            raise InvalidInput("adversary", f"needs another client in the cluster of {client}", "choose `aggregator`")
        return others[0]

    def round_of(self, client: int, number: int) -> tuple[Round, bytes]:
        """The round that a client's upload belongs to, and the upload."""
        data = self.folder.message(number, f"upload-{client}")
        header, _ = parse_any(data, "upload")
        profile, cluster = get_profile(self.config.encryption.profile), int(self.labels[client])
        attempt, size = int(header["attempt"]), self.initial.size
        members = {member: self.samples[member] for member in self._members(number, cluster)}
        weights, factors = release_rules(self.config).shares(
            members, whole=self.config.encryption.weighting == "server"
        )
        return Round(header["run"], number, cluster, "model", size, profile, weights, attempt, factors, self.clip), data

    def _members(self, number: int, cluster: int) -> list[int]:
        """The members that were sampled for a round."""
        return [
            record.client
            for record in clients_of(self.folder.records())
            if record.round == number and record.cluster == cluster
        ]

    def gradient(self, sent: FloatVector, before: FloatVector, scale: float) -> FloatVector:
        """ĝ from what a client sent: an update, or a model that started from `before`."""
        return -sent / scale if self.clip is not None else (before - sent) / scale

    def order(self, client: int, number: int, colluder: int | None) -> IntVector | None:
        """The order of the parameters, as far as the adversary has it: None if there is none."""
        tensors = self.members(client, number)
        if "order" not in tensors:
            return None
        return tensors["order"] if colluder is not None else _UNKNOWN

    def members(self, client: int, number: int) -> dict[str, npt.NDArray[Any]]:
        """What members of the client's cluster know."""
        return parse_any(self.folder.message(number, f"members-{int(self.labels[client])}"), "members")[1]

    def upload_of(self, client: int, number: int, colluder: int | None) -> tuple[FloatVector, BoolVector]:
        """A client's upload in natural order, NaN where unknown; and which values were encrypted."""
        round_, data = self.round_of(client, number)
        upload = Upload.from_bytes(data, round_)
        slots = self._plain_slots(upload, round_)
        hidden = Mask(upload.mask.flags, round_.size, round_.block, self._true_order(client, number)).to_array()
        return _to_natural(slots, self.order(client, number, colluder)), hidden

    def mask(self, client: int, number: int, colluder: int | None) -> BoolVector | None:
        """The mask, if it is known although all values are hidden; None if the observation implies it."""
        if not self.config.encryption.blinded or self.order(client, number, colluder) is _UNKNOWN:
            return None
        return self.upload_of(client, number, colluder)[1]

    def unplaced(self, client: int, number: int, scale: float, *, aggregates: bool) -> Unplaced | None:
        """The plain weights of a client, and of others in the same slots; None without an order, and of updates.

        Weights can be matched with the initial model, which is public. Updates have no such counterpart.
        """
        if self.clip is not None or self.config.encryption.blinded or "order" not in self.members(client, number):
            return None
        round_, data = self.round_of(client, number)
        upload = Upload.from_bytes(data, round_)
        plain = ~upload.mask.to_array()
        values = self._plain_slots(upload, round_)[plain]
        others = [self._slots_of(other, number)[plain] for other in round_.weights if aggregates and other != client]
        possible = np.ones(self.initial.size, dtype=bool)
        if self.config.selection.always_encrypt == "classifier" and self.config.policy.heeds_always:
            always = always_encrypt(self.problem.build(), self.problem.classes)
            possible = ~always if np.count_nonzero(~plain) >= np.count_nonzero(always) else possible
        step = 2.0 ** -model_format(round_).frac_bits / round_.share(client)
        complete = [each for each in others if not np.isnan(each).any()]
        rows = np.array(complete).reshape(len(complete), values.size)
        return Unplaced(values=values, others=rows, possible=possible, step=step, scale=scale)

    def _slots_of(self, client: int, number: int) -> FloatVector:
        """The plain values, NaN elsewhere; all NaN without an upload."""
        try:
            round_, data = self.round_of(client, number)
        except InvalidInput:
            return np.full(self.initial.size, np.nan)
        return self._plain_slots(Upload.from_bytes(data, round_), round_)

    def _plain_slots(self, upload: Upload, round_: Round) -> FloatVector:
        """The plain values of an upload, NaN elsewhere."""
        slots = np.full(round_.size, np.nan)
        if upload.plain.size and not self.config.encryption.blinded:
            values = model_format(round_).decode(upload.plain, round_.share(upload.client))
            slots[~upload.mask.to_array()] = values
        return slots

    def _true_order(self, client: int, number: int) -> IntVector | None:
        return self.members(client, number).get("order")  # for the encrypted share; the adversary does not have it

    def model_before(self, client: int, number: int, colluder: int | None, *, aggregates: bool) -> FloatVector:
        """The model the client started from, NaN where the adversary does not know it."""
        if colluder is not None:
            return self.members(client, number)["model"].astype(np.float64)
        if number == 0:
            return self.initial
        if not aggregates:
            return np.full(self.initial.size, np.nan)
        if self.clip is not None:
            start = self.model_before(client, number - 1, None, aggregates=True)
            return start + self._mean(client, number - 1)
        return self._mean(client, number - 1)

    def _mean(self, client: int, number: int) -> FloatVector:
        """The mean of what the client's cluster sent in a round, as far as it was plain, NaN elsewhere."""
        round_, _ = self.round_of(client, number)
        data = self.folder.message(number, f"aggregate-{round_.cluster}")
        aggregate, slots = Aggregate.from_bytes(data, round_), np.full(round_.size, np.nan)
        if aggregate.plain.size and not self.config.encryption.blinded:
            weight = round_.divisor(aggregate.contributors)
            slots[~aggregate.common.to_array()] = model_format(round_).decode(aggregate.plain, weight)
            slots[aggregate.mask.to_array()] = np.nan  # of these, the plain ones are not all
        return _to_natural(slots, self.order(client, number, None))

    def stale(
        self, client: int, number: int, colluder: int | None, scale: float, *, aggregates: bool
    ) -> FloatVector | None:
        """ĝ as the client's upload of the round before gives it; None in the first round."""
        if number == 0:
            return None
        try:
            sent, _ = self.upload_of(client, number - 1, colluder)
        except InvalidInput:
            return None
        return self.gradient(sent, self.model_before(client, number - 1, colluder, aggregates=aggregates), scale)

    def subtracted(self, client: int, number: int, colluder: int) -> FloatVector:
        """The client's values: the cluster's sum minus the values of all others.

        NaN where a client other than the colluder encrypted or blinded a value.
        """
        round_, _ = self.round_of(client, number)
        cluster = int(self.labels[client])
        aggregate = Aggregate.from_bytes(self.folder.message(number, f"aggregate-{cluster}"), round_)
        form = model_format(round_)
        weight = round_.divisor(aggregate.contributors)
        mean = parse_any(self.folder.message(number, f"released-{cluster}"), "released")[1]["moved"].astype(np.float64)
        if self.clip is not None:
            mean -= self.members(client, number)["moved"]
        rest = np.rint(mean.astype(np.float64) * weight * 2.0**form.frac_bits)
        for other in aggregate.contributors:
            if other == client:
                continue
            if other == colluder:
                values = form.encode(self.own(other, number), round_.share(other)).astype(np.float64)
            else:
                sent, _ = self.upload_of(other, number, colluder)
                values = np.rint(sent * round_.share(other) * 2.0**form.frac_bits)
            rest = rest - round_.factor(other) * values
        return rest / (round_.share(client) * round_.factor(client) * 2.0**form.frac_bits)

    def own(self, client: int, number: int) -> FloatVector:
        """A client's own update before encryption."""
        return parse_any(self.folder.message(number, f"own-{client}"), "own")[1]["sent"].astype(np.float64)

    def description(self, client: int) -> FloatVector | None:
        """Γ of the client's data at the initial model, where it was sent in the clear."""
        if self.config.groups.sensitivities != "clear" or self.config.groups.clustering == "none":
            return None
        return parse_any(self.folder.message(SETUP, f"description-{client}"), "description")[1]["row"]

    def public(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Labelled data of the same kind: samples of the test set."""
        inputs, labels = self.problem.test
        rng = derive_rng(self.config.problem.seed, "attack public data")
        chosen = np.concatenate(
            [
                rng.permutation(np.flatnonzero(labels.numpy() == label))[:PUBLIC_PER_CLASS]
                for label in range(self.problem.classes)
            ]
        )
        return inputs[chosen], labels[chosen]


_UNKNOWN = np.empty(0, dtype=np.int64)  # there is an order, and the adversary does not have it


def _to_natural(slots: FloatVector, order: IntVector | None) -> FloatVector:
    if order is None:
        return slots
    values = np.full(slots.size, np.nan)
    if order is not _UNKNOWN:
        values[order] = slots
    return values
