"""All parties of a run on one machine: clients in worker processes, aggregator and key server in this one.

The loop is the protocol of the paper's Algorithms 1 and 2: describe the data, cluster, give each cluster an order of
the parameters, then rounds of train → choose → encrypt → add → decrypt → distribute. Models depend on the configuration
alone: not on keys, masks, workers or who arrives first.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import nn

from sensecrypt.algo.budget import encryption_budgets
from sensecrypt.algo.clustering import cluster_clients
from sensecrypt.config import RunConfig
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.engines.problem import Problem, configured_problem
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.engines.training import accuracy_by_class, warm_up
from sensecrypt.engines.work import Done, Task, Vector, World, describe_data, play_round, seal_initial_sensitivity
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.models import get_vector, layout, set_vector
from sensecrypt.policies import get_policy
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.client import read_model
from sensecrypt.protocol.keyserver import KeyServer, Opened
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.sharedkey import SharedKeyClients
from sensecrypt.rng import derive_rng

RUN_NAME = "local"
MAX_ATTEMPTS = 2

OnRound = Callable[[int, float, float], None]
Intercept = Callable[[int, int, bytes], bytes | None]
_WORLD: list[World] = []  # in a worker process: what it inherited when it was forked


@dataclass
class State:
    """What changes from round to round, and what a checkpoint holds."""

    next_round: int
    labels: np.ndarray[Any, np.dtype[np.int64]]
    why: str
    vectors: list[Vector]


@dataclass(frozen=True)
class Result:
    """What came of a run."""

    vectors: list[Vector]
    labels: list[int]
    accuracy: list[float]
    records: list[dict[str, Any]]
    wall_seconds: float
    why_clusters: str
    build: Callable[[], nn.Module]

    def models(self) -> list[nn.Module]:
        """The trained model of each cluster."""
        trained = []
        for vector in self.vectors:
            model = self.build()
            set_vector(model, vector)
            trained.append(model)
        return trained

    def summary(self) -> dict[str, Any]:
        """The object that `sensecrypt run --json` prints."""
        played = [record for record in self.records if "encrypted_share" in record]
        return {
            "model_sha256": [hashlib.sha256(vector.tobytes()).hexdigest() for vector in self.vectors],
            "clusters": self.labels,
            "accuracy": float(np.mean(self.accuracy)),
            "accuracy_per_client": self.accuracy,
            "encrypted_share": _mean(played, "encrypted_share"),
            "coverage": _mean(played, "coverage"),
            "rounds": 1 + max((record["round"] for record in self.records), default=-1),
            "wall_seconds": self.wall_seconds,
            "bytes_up": sum(record["bytes_up"] for record in played),
            "bytes_down": sum(record["bytes_down"] for record in played),
        }


def _mean(records: Sequence[dict[str, Any]], key: str) -> float:
    return float(np.mean([record[key] for record in records])) if records else 0.0


def run_local(
    config: RunConfig,
    folder: RunFolder,
    *,
    problem: Problem | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    intercept: Intercept | None = None,
) -> Result:
    """Play a whole run.

    Args:
        config: what to do.
        folder: where records, checkpoints and models go.
        problem: what to learn; None: what the configuration names.
        resume: continue the run that is in `folder`.
        on_round: told after each round: its number, the mean accuracy, the mean encrypted share.
        intercept: stands between clients and aggregator, for tests: returns the bytes that arrive, or None.
    """
    if not resume:
        folder.refuse_existing()
    get_policy(config.policy)
    run = _LocalRun(config, problem or configured_problem(config), folder, on_round, intercept)
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
    ) -> None:
        torch.set_num_threads(1)  # before any computation: workers are forked from this process
        warm_up()
        self.config, self.folder, self.on_round, self.intercept = config, folder, on_round, intercept
        self.problem = problem
        self.samples = np.array([len(labels) for _, labels in problem.clients])
        _, secret = generate_keypair(config.profile)
        if config.key_mode == "shared-key":
            self.server: KeyServer = SharedKeyClients(secret)
        else:
            self.server = KeyServer(secret, min_contributors=min(config.min_contributors, config.clients))
        key = secret if config.key_mode == "shared-key" else secret.public
        if config.policy != "plaintext":
            key.encrypt([0])  # builds the tables, which workers inherit
        self.world = World(config, problem.build, problem.clients, key)
        self.histograms = [
            np.bincount(labels.numpy(), minlength=problem.classes) / len(labels) for _, labels in problem.clients
        ]

    def play(self, resume: bool) -> Result:
        start = time.perf_counter()
        with self._workers():
            state = self._resumed() if resume else None
            if state is None:
                state = self._cluster()
                self._first_orders(state)
                self._checkpoint(state)
            self.budgets = self._budgets(state)
            accuracy = self._accuracies(state)
            for number in range(state.next_round, self.config.rounds):
                records = self._round(state, number)
                state.next_round = number + 1
                accuracy = self._accuracies(state)
                for record in records:
                    record["accuracy"] = accuracy[record["client"]]
                self.folder.append(records)
                self._checkpoint(state)
                shares = [record["encrypted_share"] for record in records if "encrypted_share" in record]
                if self.on_round is not None:
                    self.on_round(number, float(np.mean(accuracy)), float(np.mean(shares)) if shares else 0.0)
        self.folder.save_models(state.vectors, layout(self.problem.build()))
        seconds = time.perf_counter() - start
        records, build = self.folder.records(), self.problem.build
        return Result(state.vectors, state.labels.tolist(), accuracy, records, seconds, state.why, build)

    @property
    def _ordered(self) -> bool:
        """Whether clusters have an order of their parameters."""
        return self.config.layout == "prefix" and self.config.policy != "plaintext"

    # Setting up.

    def _cluster(self) -> State:
        initial = get_vector(self.problem.build())
        labels, why = np.zeros(self.config.clients, dtype=np.int64), "clustering is off"
        if self.config.clustering == "auto":
            seed = self.server.sketch_seed(RUN_NAME) if self.config.sensitivities == "sketch" else None
            rows = self._map(describe_data, [(client, initial, seed) for client in range(self.config.clients)])
            clusters = cluster_clients(np.array(rows), random_state=derive_rng(self.config.seed, "clustering"))
            labels, why = clusters.labels, clusters.why
        return State(0, labels, why, [initial.copy() for _ in range(int(labels.max()) + 1)])

    def _budgets(self, state: State) -> np.ndarray[Any, np.dtype[np.float64]]:
        """α by device and cluster, capped so that no block is encrypted by fewer than `min_contributors`."""
        clients = np.arange(self.config.clients)
        cpus, bandwidths = (np.array(kind)[clients % len(kind)] for kind in (self.config.cpus, self.config.bandwidths))
        budgets = encryption_budgets(bandwidths, cpus, clusters=state.labels)
        for cluster in range(len(state.vectors)):
            members = np.flatnonzero(state.labels == cluster)
            rank = min(self.config.min_contributors, members.size)
            budgets[members] = np.minimum(budgets[members], np.sort(budgets[members])[-rank])
        return budgets

    def _first_orders(self, state: State) -> None:
        if not self._ordered:
            return
        for cluster, vector in enumerate(state.vectors):
            round_ = self._describe(state, cluster, 0, "sensitivity")
            seed = self.server.receipt_seed(round_)
            done = self._map(seal_initial_sensitivity, [(client, vector, round_, seed) for client in round_.weights])
            self._new_order(round_, done)

    def _new_order(self, round_: Round, done: Sequence[Done]) -> None:
        """Sum encrypted sensitivities and let the key server make an order of them; the aggregator learns nothing."""
        total = RoundSum(round_, self.server.public)
        for each in done:
            if each.sensitivity is not None:
                total.add(each.sensitivity.upload, sender=each.client)
                self.server.take_receipt(each.sensitivity.receipt, round_, sender=each.client)
        opened = self.server.open(total.close().to_bytes(round_), round_, workers=self.config.workers)
        self.server.set_order(round_, opened)

    # One round.

    def _round(self, state: State, number: int) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for cluster in range(len(state.vectors)):
            for attempt in range(MAX_ATTEMPTS):
                try:
                    records += self._cluster_round(state, cluster, number, attempt)
                    break
                except Rejected as error:
                    reason = str(error)
            else:
                raise SenseCryptError(
                    f"round {number}, cluster {cluster} failed {MAX_ATTEMPTS} times: {reason}; fix it and --resume"
                )
        return records

    def _cluster_round(self, state: State, cluster: int, number: int, attempt: int) -> list[dict[str, Any]]:
        round_ = self._describe(state, cluster, number, "model", attempt)
        refresh = None
        due = (number + 1) % self.config.order_refresh == 0 and number + 1 < self.config.rounds
        if due and self._ordered:
            after = self._describe(state, cluster, number + 1, "sensitivity", attempt)
            refresh = (after, self.server.receipt_seed(after))
        order = self.server.order(RUN_NAME, cluster) if self.config.layout == "prefix" else None
        seed = self.server.receipt_seed(round_)
        tasks = [
            (Task(client, round_, state.vectors[cluster], order, float(self.budgets[client]), seed, refresh),)
            for client in round_.weights
        ]
        total = RoundSum(round_, self.server.public)
        done: list[Done] = []
        records = []
        for each in self._as_done(play_round, tasks):
            record: dict[str, Any] = {"round": number, "cluster": cluster, "client": each.client, **(each.facts or {})}
            try:
                self._deliver(each, round_, total)
                done.append(each)
            except Rejected as error:
                record = {"round": number, "cluster": cluster, "client": each.client, "left_out": str(error)}
            records.append(record)
        opened, seconds = self._open(round_, total)
        state.vectors[cluster] = read_model(opened.values, opened.weight, round_)
        if refresh is not None:
            self._new_order(refresh[0], done)
        for record in records:
            record |= {"bytes_down": state.vectors[cluster].nbytes, "open_seconds": seconds}
        return sorted(records, key=lambda record: int(record["client"]))

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

    def _open(self, round_: Round, total: RoundSum) -> tuple[Opened, float]:
        arrived = sum(round_.weights[client] for client in total.contributors)
        if arrived < self.config.quorum:
            raise Rejected(f"{arrived:.0%} of the cluster's weight arrived, the quorum is {self.config.quorum:.0%}")
        start = time.perf_counter()
        opened = self.server.open(total.close().to_bytes(round_), round_, workers=self.config.workers)
        return opened, time.perf_counter() - start

    def _describe(self, state: State, cluster: int, number: int, purpose: str, attempt: int = 0) -> Round:
        members = np.flatnonzero(state.labels == cluster)
        total = int(self.samples[members].sum())
        weights = {int(client): int(self.samples[client]) / total for client in members}
        size = state.vectors[cluster].size
        return Round(RUN_NAME, number, cluster, purpose, size, get_profile(self.config.profile), weights, attempt)

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
            order = self.server.order(RUN_NAME, cluster)
            if order is not None:
                tensors[f"order-{cluster}"] = order
        self.folder.save_checkpoint({"round": state.next_round, "why": state.why}, tensors)

    def _resumed(self) -> State | None:
        checkpoint = self.folder.load_checkpoint()
        if checkpoint is None:
            return None
        header, tensors = checkpoint
        labels = tensors["labels"]
        vectors = [tensors[f"vector-{cluster}"] for cluster in range(int(labels.max()) + 1)]
        for cluster in range(len(vectors)):
            if f"order-{cluster}" in tensors:
                self.server.restore_order(RUN_NAME, cluster, tensors[f"order-{cluster}"])
        self.folder.forget_from(int(header["round"]))
        return State(int(header["round"]), labels, header["why"], vectors)

    # Workers.

    @contextmanager
    def _workers(self) -> Iterator[None]:
        self._pool: ProcessPoolExecutor | None = None
        try:
            yield
        finally:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)

    def _submit(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
        if self._pool is None:
            context = get_context("fork")
            self._pool = ProcessPoolExecutor(self.config.workers, context, _enter, (self.world,))
        return self._pool.submit(_call, work, arguments)

    def _map(self, work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        if self.config.workers == 1:
            return [work(self.world, *arguments) for arguments in calls]
        return [future.result() for future in [self._submit(work, arguments) for arguments in calls]]

    def _as_done(self, work: Callable[..., Done], calls: Sequence[tuple[Any, ...]]) -> Iterator[Done]:
        """Results as they arrive; a client whose process dies is told as a failure, the others are played again."""
        if self.config.workers == 1:
            yield from (work(self.world, *arguments) for arguments in calls)
            return
        futures = {self._submit(work, arguments): arguments for arguments in calls}
        lost = []
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                lost.append(futures[future])
        for arguments in lost:  # one at a time, so that the one that dies takes nobody with it
            self._pool = None
            try:
                yield self._submit(work, arguments).result()
            except BrokenProcessPool:
                self._pool = None
                yield Done(arguments[0].client, failure="the client's process died")


def _enter(world: World) -> None:
    torch.set_num_threads(1)
    _WORLD.append(world)


def _call(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return work(_WORLD[0], *arguments)
