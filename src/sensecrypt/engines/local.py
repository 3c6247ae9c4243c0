"""All parties of a run on one machine: clients in worker processes, aggregator and key server in this one.

The loop is the protocol of the paper's Algorithms 1 and 2: describe the data, cluster, give each cluster an order of
the parameters, then rounds of train → choose → encrypt → add → decrypt → distribute. Models depend on the configuration
alone: not on keys, masks, workers or who arrives first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sensecrypt.algo.clustering import cluster_clients
from sensecrypt.algo.ordering import descending_order
from sensecrypt.config import RunConfig
from sensecrypt.engines import jacobian
from sensecrypt.engines.budgets import Budgets
from sensecrypt.engines.clock import SETUP, Prices
from sensecrypt.engines.keyring import Keyring, make_keys
from sensecrypt.engines.meter import work_seconds
from sensecrypt.engines.problem import Problem, configured_problem
from sensecrypt.engines.result import Record, Result
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.engines.training import accuracy_by_class, warm_up
from sensecrypt.engines.work import (
    Described,
    Done,
    Proposed,
    Task,
    Vector,
    World,
    describe_data,
    play_round,
    propose_blocks,
    seal_ranking,
)
from sensecrypt.engines.workers import Workers
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.models import always_encrypt, get_vector, layout, set_vector
from sensecrypt.policies import get_policy
from sensecrypt.policies.maskcrypt import expose
from sensecrypt.policies.situation import blocks_of
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.client import read_model
from sensecrypt.protocol.keyserver import Opened
from sensecrypt.protocol.messages import Aggregate, Proposal
from sensecrypt.protocol.round import Round
from sensecrypt.rng import derive_rng
from sensecrypt.types import BoolVector, Mask

RUN_NAME = "local"
MAX_ATTEMPTS = 2
INDEX_BYTES = 4  # of a parameter's number, when an order is handed out

OnRound = Callable[[int, float, float], None]
Intercept = Callable[[int, int, bytes], bytes | None]
Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class State:
    """What changes from round to round, and what a checkpoint holds.

    Attributes:
        next_round: the first that was not played.
        labels: the cluster of each client.
        why: there are these clusters.
        vectors: the model of each cluster.
        exposed: what an adversary knows of each of them, for policies that ask.
        rankings: of each cluster's parameters, for policies that rank once.
    """

    next_round: int
    labels: Ints
    why: str
    vectors: list[Vector]
    exposed: list[Vector]
    rankings: list[Ints | None]


def run_local(
    config: RunConfig,
    folder: RunFolder,
    *,
    problem: Problem | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    intercept: Intercept | None = None,
    memo: Path | None = None,
    prices: Prices | None = None,
) -> Result:
    """Play a whole run.

    Args:
        config: what to do.
        folder: where records, checkpoints and models go.
        problem: what to learn; None: what the configuration names.
        resume: continue the run that is in `folder`.
        on_round: told after each round: its number, the mean accuracy, the mean encrypted share.
        intercept: stands between clients and aggregator, for tests: returns the bytes that arrive, or None.
        memo: a folder where training results are kept, shared by runs of the same problem.
        prices: what a ciphertext costs in a calibrated run; None: as measured at its start.
    """
    if not resume:
        folder.refuse_existing()
    get_policy(config.policy)
    run = _LocalRun(config, problem or configured_problem(config), folder, on_round, intercept, memo, prices)
    if not resume:
        folder.create(config)  # only now: what could not even start leaves nothing behind
    return run.play(resume)


class _LocalRun:
    def __init__(
        self,
        config: RunConfig,
        problem: Problem,
        folder: RunFolder,
        on_round: OnRound | None,
        intercept: Intercept | None,
        memo: Path | None,
        prices: Prices | None,
    ) -> None:
        torch.set_num_threads(1)  # before any computation: workers are forked from this process
        warm_up()
        if get_policy(config.policy).ranks_by == "jacobian":
            jacobian.warm_up()
        self.config, self.folder, self.on_round, self.intercept = config, folder, on_round, intercept
        self.problem, self.policy = problem, get_policy(config.policy)
        self.samples = np.array([len(labels) for _, labels in problem.clients])
        self.size = get_vector(problem.build()).size
        self.profile = get_profile(config.profile)
        if self.policy.uses_ratio:
            block = min(self.profile.slots, self.size)
            blocks_of(config.ratio, -(-self.size // block), block)  # refuses what would encrypt nothing
        self.keys: Keyring = make_keys(config, prices)
        self.server = self.keys.server
        always = None
        if config.always_encrypt == "classifier" and self.policy.heeds_always:
            always = always_encrypt(problem.build(), problem.classes)
        self.world = World(config, problem.build, problem.clients, self.keys.clients, memo, always)
        self.histograms = [
            np.bincount(labels.numpy(), minlength=problem.classes) / len(labels) for _, labels in problem.clients
        ]

    def play(self, resume: bool) -> Result:
        start = time.perf_counter()
        with Workers(self.world, self.config.workers) as self.workers:
            state = self._resumed() if resume else None
            if state is None:
                state = self._set_up()
                self._checkpoint(state)
            self.budgets = Budgets(self.config, state.labels, self.size)
            self.budgets.learn(self.folder.records())
            accuracy = self._accuracies(state)
            for number in range(state.next_round, self.config.rounds):
                records = self._round(state, number)
                state.next_round = number + 1
                accuracy = self._accuracies(state)
                clients = [record for record in records if "client" in record]
                for record in clients:
                    record["accuracy"] = accuracy[record["client"]]
                self.folder.append(records)
                self._checkpoint(state)
                self.budgets.learn(records)
                shares = [record["encrypted_share"] for record in clients if "encrypted_share" in record]
                if self.on_round is not None:
                    self.on_round(number, float(np.mean(accuracy)), float(np.mean(shares)) if shares else 0.0)
        self.folder.save_models(state.vectors, layout(self.problem.build()))
        seconds = time.perf_counter() - start
        log, build = self.folder.records(), self.problem.build
        return Result(self.config, state.vectors, state.labels.tolist(), accuracy, log, seconds, state.why, build)

    @property
    def _ordered(self) -> bool:
        """Whether clusters have a secret order of their parameters."""
        return self.config.layout == "prefix" and self.policy.ranks_by is not None

    # Setting up.

    def _set_up(self) -> State:
        initial = get_vector(self.problem.build())
        clients = range(self.config.clients)
        facts: dict[int, Record] = {client: {"bytes_up": 0, "bytes_down": initial.nbytes} for client in clients}
        labels, why = np.zeros(self.config.clients, dtype=np.int64), "clustering is off"
        if self.config.clustering == "auto":
            seed = self.server.sketch_seed(RUN_NAME) if self.config.sensitivities == "sketch" else None
            described: list[Described] = self.workers.map(
                describe_data, [(client, initial, seed) for client in clients]
            )
            rows = np.array([each.row for each in described])
            clusters = cluster_clients(rows, random_state=derive_rng(self.config.seed, "clustering"))
            labels, why = clusters.labels, clusters.why
            for client, each in enumerate(described):
                _add(facts[client], each.facts)
        count = int(labels.max()) + 1
        state = State(0, labels, why, [initial] * count, [initial] * count, [None] * count)
        records = [{"round": SETUP, "cluster": int(labels[client]), "client": client} for client in clients]
        if self._ordered or self.policy.ranks_by == "jacobian":
            records += [self._first_ranking(state, cluster, facts) for cluster in range(count)]
        for record in records:
            if "client" in record:
                record |= facts[record["client"]]
        self.folder.append(records)
        return state

    def _first_ranking(self, state: State, cluster: int, facts: dict[int, Record]) -> Record:
        round_ = self._describe(state, cluster, 0, "sensitivity")
        seed = self.server.receipt_seed(round_)
        calls = [(client, state.vectors[cluster], round_, seed) for client in round_.weights]
        done: list[Done] = self.workers.map(seal_ranking, calls)
        opened, record = self._sum_sensitivities(round_, done, {"round": SETUP, "cluster": cluster, "server": True})
        if not self._ordered:
            state.rankings[cluster], _ = descending_order(np.maximum(opened.values, 0).astype(np.float64))
        for each in done:
            _add(facts[each.client], {**(each.facts or {}), "bytes_down": INDEX_BYTES * self.size})
        return record

    def _sum_sensitivities(self, round_: Round, done: Sequence[Done], record: Record) -> tuple[Opened, Record]:
        """Sum encrypted sensitivities; the key server may make an order of them, the aggregator learns nothing."""
        failures = [each.failure for each in done if each.failure]
        if len(failures) == len(done) and failures:
            raise SenseCryptError(f"no client of cluster {round_.cluster} could take part: {failures[0]}")
        self.keys.meter.take()
        start = work_seconds()
        total = RoundSum(round_, self.keys.public)
        for each in done:
            if each.sensitivity is not None:
                total.add(each.sensitivity.upload, sender=each.client)
                self.server.take_receipt(each.sensitivity.receipt, round_, sender=each.client)
        opened = self.server.open(total.close().to_bytes(round_), round_, workers=self.config.workers)
        if self._ordered:
            self.server.set_order(round_, opened, first=self.world.always)
        self._charge(record, start, "aggregate_seconds")
        return opened, record

    # One round.

    def _round(self, state: State, number: int) -> list[Record]:
        records: list[Record] = []
        budgets = self.budgets.of_round(number, refresh=self._refresh_due(number))
        for cluster in range(len(state.vectors)):
            for attempt in range(MAX_ATTEMPTS):
                try:
                    records += self._cluster_round(state, cluster, number, attempt, budgets)
                    break
                except Rejected as error:
                    reason = str(error)
            else:
                raise SenseCryptError(
                    f"round {number}, cluster {cluster} failed {MAX_ATTEMPTS} times: {reason}; fix it and --resume"
                )
        return records

    def _refresh_due(self, number: int) -> bool:
        due = (number + 1) % self.config.order_refresh == 0 and number + 1 < self.config.rounds
        return due and self._ordered and self.policy.ranks_by == "sensitivity"

    def _cluster_round(
        self,
        state: State,
        cluster: int,
        number: int,
        attempt: int,
        budgets: np.ndarray[Any, np.dtype[np.float64]],
    ) -> list[Record]:
        round_ = self._describe(state, cluster, number, "model", attempt)
        refresh = None
        if self._refresh_due(number):
            after = self._describe(state, cluster, number + 1, "sensitivity", attempt)
            refresh = (after, self.server.receipt_seed(after))
        order = self.server.order(RUN_NAME, cluster) if self._ordered else None
        seed = self.server.receipt_seed(round_)
        ranking, exposed = state.rankings[cluster], state.exposed[cluster] if self.policy.propose else None
        vector = state.vectors[cluster]
        tasks = [
            Task(client, round_, vector, order, ranking, exposed, float(budgets[client]), seed, refresh)
            for client in round_.weights
        ]
        facts: dict[int, Record] = {task.client: {"bytes_down": 0} for task in tasks}
        left_out: dict[int, str] = {}
        if self.policy.propose is not None:
            tasks = self._agree(round_, tasks, facts, left_out)
        server: Record = {"round": number, "cluster": cluster, "server": True}
        total, done = self._collect(round_, tasks, facts, left_out, server)
        opened, aggregate, size = self._open(round_, total, server)
        state.vectors[cluster] = read_model(opened.values, opened.weight, round_)
        hidden = Mask(aggregate.mask.flags, aggregate.mask.size, aggregate.mask.block, order)
        server["union_share"] = hidden.share
        state.exposed[cluster] = expose(state.exposed[cluster], hidden.to_array(), state.vectors[cluster])
        if self.config.key_mode == "shared-key":
            opening = {key: server.pop(key) for key in ("open_seconds", "decrypt_seconds", "decrypted_blocks")}
            for client in facts:
                _add(facts[client], {**opening, "bytes_down": size})
        else:
            for client in facts:
                _add(facts[client], {"bytes_down": state.vectors[cluster].nbytes})
        if refresh is not None:
            self._sum_sensitivities(refresh[0], done, server)
            for each in done:
                _add(facts[each.client], {"bytes_down": INDEX_BYTES * self.size})
        records = []
        for client in sorted(facts):
            told = {"left_out": left_out[client]} if client in left_out else facts[client]
            records.append({"round": number, "cluster": cluster, "client": client, **told})
        return [*records, server]

    def _agree(
        self, round_: Round, tasks: Sequence[Task], facts: dict[int, Record], left_out: dict[int, str]
    ) -> list[Task]:
        """The first of two exchanges: clients train and propose, the aggregator makes one mask of it."""
        proposed: dict[int, Proposed] = {}
        proposals: dict[int, Proposal] = {}
        limit = blocks_of(self.config.ratio, round_.blocks, round_.block)
        for each in self.workers.as_done(propose_blocks, [(task,) for task in tasks], died=_died_proposing):
            try:
                if each.message is None:
                    raise Rejected(each.failure or "the client died")
                proposal = Proposal.from_bytes(each.message, round_)
                if proposal.blocks.size > limit:
                    raise Rejected(
                        f"client {each.client} proposes {proposal.blocks.size:,} blocks, {limit:,} are allowed"
                    )
                proposals[each.client] = proposal
                proposed[each.client] = each
            except Rejected as error:
                left_out[each.client] = str(error)
        if not proposals or self.policy.agree is None:
            raise Rejected("no proposal arrived")
        agreed: BoolVector = self.policy.agree(
            [proposals[client].blocks for client in sorted(proposals)], round_.blocks, limit
        )
        for client, each in proposed.items():
            _add(facts[client], {"bytes_down": -(-agreed.size // 8), "propose_bytes": len(each.message or b"")})
        return [
            replace(task, agreed=agreed, trained=proposed[task.client].trained)
            for task in tasks
            if task.client in proposed
        ]

    def _collect(
        self,
        round_: Round,
        tasks: Sequence[Task],
        facts: dict[int, Record],
        left_out: dict[int, str],
        server: Record,
    ) -> tuple[RoundSum, list[Done]]:
        """Let the clients play, and add what arrives as it arrives."""
        total = RoundSum(round_, self.keys.public)
        arrived: list[Done] = []
        for each in self.workers.as_done(play_round, [(task,) for task in tasks], died=_died):
            self.keys.meter.take()
            start = work_seconds()
            try:
                self._deliver(each, round_, total)
                arrived.append(each)
                _add(facts[each.client], each.facts or {})
                facts[each.client]["bytes_up"] += facts[each.client].get("propose_bytes", 0)
            except Rejected as error:
                left_out[each.client] = str(error)
            self._charge(server, start, "aggregate_seconds")
        return total, arrived

    def _deliver(self, done: Done, round_: Round, total: RoundSum) -> None:
        if done.model is None:
            raise Rejected(done.failure or "the client died")
        data: bytes | None = done.model.upload
        if self.intercept is not None:
            data = self.intercept(done.client, round_.number, done.model.upload)
        if data is None:
            raise Rejected("nothing arrived")
        total.add(data, sender=done.client)
        self.server.take_receipt(done.model.receipt, round_, sender=done.client)

    def _open(self, round_: Round, total: RoundSum, server: Record) -> tuple[Opened, Aggregate, int]:
        """Close the sum and let whoever holds the key open it; also how long the aggregate is on the wire."""
        arrived = sum(round_.weights[client] for client in total.contributors)
        if arrived < self.config.quorum:
            raise Rejected(f"{arrived:.0%} of the cluster's weight arrived, the quorum is {self.config.quorum:.0%}")
        start = work_seconds()
        aggregate = total.close()
        message = aggregate.to_bytes(round_)
        self._charge(server, start, "aggregate_seconds")
        start = work_seconds()
        opened = self.server.open(message, round_, workers=self.config.workers)
        self._charge(server, start, "open_seconds")
        return opened, aggregate, len(message)

    def _charge(self, server: Record, start: float, rest: str) -> None:
        """What was spent since `start`: on cryptography as the meter says, on the rest as measured."""
        took = work_seconds() - start
        spent = self.keys.meter.take()
        charged = {
            rest: max(0.0, took - spent.actual_seconds),
            "add_seconds": spent.seconds["add"],
            "added_blocks": spent.blocks["add"],
            "decrypt_seconds": spent.seconds["decrypt"],
            "decrypted_blocks": spent.blocks["decrypt"],
        }
        _add(server, charged)

    def _describe(self, state: State, cluster: int, number: int, purpose: str, attempt: int = 0) -> Round:
        members = np.flatnonzero(state.labels == cluster)
        total = int(self.samples[members].sum())
        weights = {int(client): int(self.samples[client]) / total for client in members}
        return Round(RUN_NAME, number, cluster, purpose, self.size, self.profile, weights, attempt)

    def _accuracies(self, state: State) -> list[float]:
        """Each client's accuracy: its cluster's model on test data distributed as its own."""
        by_class = []
        for vector in state.vectors:
            model = self.problem.build()
            set_vector(model, vector)
            by_class.append(np.nan_to_num(accuracy_by_class(model, *self.problem.test, self.problem.classes)))
        return [
            float(histogram @ by_class[label]) for histogram, label in zip(self.histograms, state.labels, strict=True)
        ]

    # Resuming.

    def _checkpoint(self, state: State) -> None:
        tensors: dict[str, np.ndarray[Any, Any]] = {"labels": state.labels}
        for cluster, vector in enumerate(state.vectors):
            tensors[f"vector-{cluster}"] = vector
            tensors[f"exposed-{cluster}"] = state.exposed[cluster]
            order, ranking = self.server.order(RUN_NAME, cluster), state.rankings[cluster]
            if order is not None:
                tensors[f"order-{cluster}"] = order
            if ranking is not None:
                tensors[f"ranking-{cluster}"] = ranking
        self.folder.save_checkpoint({"round": state.next_round, "why": state.why}, tensors)

    def _resumed(self) -> State | None:
        checkpoint = self.folder.load_checkpoint()
        if checkpoint is None:
            self.folder.forget_from(SETUP)
            return None
        header, tensors = checkpoint
        labels = tensors["labels"]
        clusters = range(int(labels.max()) + 1)
        for cluster in clusters:
            if f"order-{cluster}" in tensors:
                self.server.restore_order(RUN_NAME, cluster, tensors[f"order-{cluster}"])
        self.folder.forget_from(int(header["round"]))
        return State(
            int(header["round"]),
            labels,
            header["why"],
            [tensors[f"vector-{cluster}"] for cluster in clusters],
            [tensors[f"exposed-{cluster}"] for cluster in clusters],
            [tensors.get(f"ranking-{cluster}") for cluster in clusters],
        )


def _add(record: Record, more: Record) -> None:
    """Numbers that are there already grow; everything else is set."""
    for key, value in more.items():
        if key in record and isinstance(value, (int, float)) and not isinstance(value, bool):
            record[key] += value
        else:
            record[key] = value


def _died(task: Task) -> Done:
    return Done(task.client, failure="the client's process died")


def _died_proposing(task: Task) -> Proposed:
    return Proposed(task.client, failure="the client's process died")
