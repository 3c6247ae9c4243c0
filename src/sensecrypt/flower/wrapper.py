"""The server's side: a strategy around the app's own, which receives the mean model in place of each client's."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from sensecrypt import checks
from sensecrypt.checks import FloatVector
from sensecrypt.coordinator.sums import Exclusion, PartedSum
from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.errors import InvalidInput, Refused, Rejected, SenseCryptError
from sensecrypt.flower.arrays import Layout, read_arrays
from sensecrypt.flower.coding import MOST_EXAMPLES, Terms, clip_of, decode, size_of, wide_bound
from sensecrypt.flower.instructions import IN_PROCESS, RECORD, Instructions, unpack_reply
from sensecrypt.flower.messages import failed_round, put_arrays, same_arrays
from sensecrypt.flower.selecting import Hook, most_sensitive, sensitivities, whole
from sensecrypt.flower.services import AppKeyService
from sensecrypt.flower.supported import require_supported
from sensecrypt.profiles import DEFAULT_PROFILE, Profile, get_profile
from sensecrypt.protocol.releaserules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT, ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import ReleasedSum
from sensecrypt.types import BoolVector, Mask

RULES = ReleaseRules(3, 0.5, LARGEST_WEIGHT, LARGEST_RATIO, COLLUDERS)
_LOG = logging.getLogger("flwr.sensecrypt")
_EVERYBODY = (0.0, float(MOST_EXAMPLES))


@dataclass(frozen=True, eq=False)
class _Pending:
    """A round that is configured and not yet aggregated."""

    round: Round
    terms: Terms
    start: FloatVector
    layout: Layout
    nodes: dict[int, int]  # Flower's node id by the client's number


class SenseCrypt(Strategy):
    """Encrypted aggregation for a strategy that needs the weighted mean of the replies, and their metrics."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        key_service: str | None = None,
        profile: str | Profile = DEFAULT_PROFILE,
        clip: float | None = None,
        examples: tuple[float, float] = _EVERYBODY,
        encrypt: float = 1.0,
        sensitivity: Hook | None = None,
        rules: ReleaseRules = RULES,
        run: str | None = None,
        trusted: bool = False,
    ) -> None:
        """Wrap a strategy.

        Args:
            strategy: FedAvg, FedAvgM, FedAdam, FedAdagrad, FedYogi or FedProx, also inside Flower's wrappers for
                differential privacy with clipping on the client.
            key_service: `in-process` for a simulation, or the address of a key service, such as
                https://keys.example:8443; then $SENSECRYPT_AGGREGATOR must name the identity file of this app.
            profile: the encryption scheme and its parameters.
            clip: the bound on the L2 norm of each client's update; None: 64 times the model's norm, which honest
                training does not reach.
            examples: the least and the largest number of examples that a client counts as.
            encrypt: the share of the model that is encrypted; the rest is blinded.
            sensitivity: from a model and its mean update to one sensitivity per parameter; None: |w·Δw|.
            rules: release rules; a key service has rules of its own, and the stricter ones hold.
            run: the name of the run at the key service; None: a random one.
            trusted: whether to wrap a strategy of an unknown class.
        """
        super().__init__()
        inner = require_supported(strategy, trusted=trusted)
        self.strategy, self._weighted_by = strategy, str(getattr(inner, "weighted_by_key", "num-examples"))
        self._profile = get_profile(profile)
        self._clip = None if clip is None else Terms(clip).bound
        self._examples = (float(examples[0]), float(examples[1]))
        self._encrypt = checks.number("encrypt", encrypt, low=0.0, high=1.0)
        self._sensitivity, self._rules, self._named = sensitivity, rules, run
        self._service = _service(key_service)
        self._run, self._last = "", 0
        self._public: EncryptionKey
        self._numbers: dict[int, int] = {}
        self._exclusion = Exclusion()
        self._flags: BoolVector | None = None
        self._pending: _Pending | None = None

    def summary(self) -> None:
        """Log the key service, the profile and the strategy's own settings."""
        _LOG.info("\t├──> SenseCrypt: key service %s, profile %s", self._service.address, self._profile.name)
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's own messages, each with the instructions for the node's mod."""
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        if not messages:
            return messages
        start, layout = read_arrays(same_arrays(messages), whose="initial_arrays")
        vector = layout.vector(start)
        if not self._run or server_round <= self._last:
            self._begin(layout)
        self._last = server_round
        terms = Terms(wide_bound(vector) if self._clip is None else self._clip, *self._examples)
        messages = self._invited(messages)
        nodes = {self._number(message.metadata.dst_node_id): message.metadata.dst_node_id for message in messages}
        round_ = self._describe(server_round, layout, sorted(nodes))
        try:
            task, key = self._service.register(round_)
        except (Rejected, Refused) as error:
            raise Rejected(f"round {server_round} of {len(nodes)} nodes is not started: {error}") from None
        self._pending = _Pending(round_, terms, vector, layout, nodes)
        flags = whole(round_) if self._flags is None else self._flags
        mask = Mask(flags, round_.size, round_.block).to_bits()
        place = (self._run, server_round)
        for message in messages:
            number = self._number(message.metadata.dst_node_id)
            sent = Instructions(*place, number, self._service.address, terms, self._weighted_by, mask, task, key)
            message.content = RecordDict({**message.content, RECORD: sent.to_record()})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's own result; each contributor's reply carries the weighted mean of the released sum."""
        pending, self._pending = self._pending, None
        received = list(replies)
        if pending is None:
            return self.strategy.aggregate_train(server_round, received)
        if pending.round.number != server_round:
            raise Rejected(f"round {server_round} was not started with SenseCrypt")
        usable, failed, problems = self._take(received, pending)
        try:
            released = self._release(usable, pending, problems)
            mean, examples = decode(released, pending.terms, pending.round)
        except (Rejected, Refused) as error:
            raise Rejected(failed_round(server_round, error, problems)) from None
        _LOG.info("\t├──> SenseCrypt: sum of %d clients, %.0f examples", len(released.contributors), examples)
        if self._encrypt < 1:
            gains = sensitivities(pending.start, mean, pending.layout, self._sensitivity)
            self._flags = most_sensitive(gains, self._encrypt, pending.round)
        model = pending.layout.record(pending.start + mean)
        for number in released.contributors:
            put_arrays(usable[number][0], model)
        replies = [usable[number][0] for number in released.contributors]
        return self.strategy.aggregate_train(server_round, [*replies, *failed])

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's own."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's own."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def _begin(self, layout: Layout) -> None:
        """Register a new run for this model with the key service."""
        self._run = self._named if self._named and not self._run else f"flower-{secrets.token_hex(8)}"
        self._numbers, self._exclusion, self._flags = {}, Exclusion(), None
        size = size_of(layout.size)
        self._public = self._service.begin(self._run, size, self._profile.name, self._rules)

    def _number(self, node: int) -> int:
        """A node's number in the run, assigned when it is first sampled."""
        return self._numbers.setdefault(node, len(self._numbers))

    def _invited(self, messages: list[Message]) -> list[Message]:
        """The messages without those to excluded nodes and to half of the suspects, if enough nodes are left."""
        numbers = [self._number(message.metadata.dst_node_id) for message in messages]
        if len(set(numbers)) != len(messages):
            raise InvalidInput("strategy", "asks a node twice in one round", "sample each node once")
        rules, kept = self._service.rules(), set(numbers) - self._exclusion.found
        weights = dict.fromkeys(kept, 1 / max(1, len(kept)))
        invited = self._exclusion.invited(0, weights, present=kept, quorum=rules.quorum)
        if not rules.allow(weights, invited):
            invited = kept
        return [message for message, number in zip(messages, numbers, strict=True) if number in invited]

    def _describe(self, number: int, layout: Layout, clients: list[int]) -> Round:
        weights = {client: 1 / len(clients) for client in clients}
        size, clip = size_of(layout.size), clip_of(layout.size)
        return Round(self._run, number, 0, "model", size, self._profile, weights, clip=clip)

    def _take(
        self, received: list[Message], pending: _Pending
    ) -> tuple[dict[int, tuple[Message, bytes]], list[Message], list[str]]:
        """Usable replies by client with their uploads, replies with errors, and what is wrong with the others."""
        numbers = {node: number for number, node in pending.nodes.items()}
        usable: dict[int, tuple[Message, bytes]] = {}
        failed, problems = [], []
        for reply in received:
            node = reply.metadata.src_node_id
            if reply.has_error():
                failed.append(reply)
                problems.append(f"node {node}: {(reply.error.reason or 'failed').strip().splitlines()[-1][:300]}")
                continue
            try:
                number = numbers.get(node)
                if number is None or number in usable:
                    raise Rejected("an unexpected reply, or a second one")
                upload, tag = unpack_reply(reply.content, with_tag=self._service.with_tags)
                examples = self._reported_examples(reply, pending.terms)
                if self._service.with_tags:
                    self._service.take_tag(tag, pending.round, sender=number, examples=examples)
                usable[number] = (reply, upload)
            except SenseCryptError as error:
                problems.append(f"{self._who(node)}: {error}")
                _LOG.warning("refused, %s: %s", self._who(node), error)
        return usable, failed, problems

    def _reported_examples(self, reply: Message, terms: Terms) -> float:
        """The number of examples in the reply's metrics, within the terms."""
        records = list(reply.content.metric_records.values())
        value = records[0].get(self._weighted_by) if len(records) == 1 else None
        if isinstance(value, list) or value is None or not np.isfinite(value) or value <= 0:
            raise Rejected(f"a reply without one MetricRecord with {self._weighted_by}")
        return terms.counted(float(value))

    def _release(self, usable: dict[int, tuple[Message, bytes]], pending: _Pending, problems: list[str]) -> ReleasedSum:
        """The released sum of all uploads that can be added and whose tags match."""
        round_, rules = pending.round, self._service.rules()
        parts = self._exclusion.parts(0, usable, round_.weights, rules)
        total = PartedSum(round_, self._public, parts, tags=self._service.tags)
        for number, (_, upload) in usable.items():
            try:
                total.add(upload, sender=number)
            except Rejected as error:
                who = self._who(pending.nodes[number])
                problems.append(f"{who}: {error}")
                _LOG.warning("refused, %s: %s", who, error)
        found: list[ReleasedSum] = []

        def release(without: int | None) -> None:
            closed = total.total(without=without).close()
            found.append(self._service.release(closed.to_bytes(round_), round_))

        if not total.contributors:
            raise Rejected("no upload can be used")
        left_out = total.of_part(self._exclusion.release(total, rules, release))
        if left_out:
            names = " or ".join(self._who(pending.nodes[number]) for number in left_out)
            _LOG.warning("excluded, %s: the sum with this upload does not match the MAC tags", names)
        return found[-1]

    def _who(self, node: int) -> str:
        name = self._service.names().get(self._numbers.get(node, -1))
        return f"node {node}" if name is None else f"{name} (node {node})"


def _service(key_service: str | None) -> AppKeyService:
    if key_service == IN_PROCESS:
        from sensecrypt.flower.in_process import InProcess

        return InProcess()
    if key_service is not None and key_service.startswith("https://"):
        from sensecrypt.flower.remote import Remote

        return Remote(key_service)
    problem = "is missing" if key_service is None else f"is {key_service!r}"
    fix = 'pass "in-process" for a simulation, or the https:// address of a key service'
    raise InvalidInput("key_service", problem, fix)
