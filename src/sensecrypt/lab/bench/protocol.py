"""`sensecrypt bench protocol`: one client's round step by step, what the protocol adds, and the aggregator's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch

from sensecrypt.algo.selection import select
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.client.training import train, warm_up
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.publicfile import public_fields
from sensecrypt.lab.bench.aggregation import aggregate_many
from sensecrypt.lab.bench.measure import in_own_process
from sensecrypt.models import build_model, mean_gradient
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.protection import model_format, protect_model
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

SAMPLES = 2500  # a twentieth of CIFAR-10
PAPER_CLIENTS = 20


@dataclass(frozen=True)
class Step:
    """One step of a round, in seconds: the paper's average, ours, and the bare calls that ours consists of."""

    name: str
    paper_seconds: float | None
    seconds: float
    bare_seconds: float | None


@dataclass(frozen=True)
class Memory:
    """Peak memory of a process that does nothing but aggregate so many uploads, and its growth while it does."""

    clients: int
    peak_mb: float
    grown_mb: float


@dataclass(frozen=True)
class Report:
    """All steps for a model that is encrypted whole, what the protocol adds to them, and the aggregator's memory."""

    model: str
    profile: str
    parameters: int
    ciphertexts: int
    overhead: float
    steps: list[Step]
    memory: list[Memory]


class Times(dict[str, list[float]]):
    """Seconds of calls, by name."""

    def of(self, name: str, call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Call, and keep how long it took."""
        start = time.perf_counter()
        result = call(*arguments, **more)
        self.setdefault(name, []).append(time.perf_counter() - start)
        return result


def run(*, profile: str, repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """AlexNet, everything encrypted with that profile, two clients, one core; medians."""
    times = Times()
    torch.set_num_threads(1)
    warm_up()
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.random((SAMPLES, 3, 32, 32), dtype=np.float32))
    labels = torch.from_numpy(rng.integers(0, 10, SAMPLES))
    model = build_model("alexnet", seed=seed)
    public, secret = generate_keypair(profile)
    public.encrypt([0])  # builds the tables
    server = KeyServer(secret)
    settings: dict[str, Any] = {"epochs": 1, "batch_size": 64, "learning_rate": 0.015, "momentum": 0.5, "seed": seed}
    for repeat in range(repeats):
        on_step(f"repeat {repeat + 1} of {repeats}")
        weights = times.of("training", train, model, images, labels, **settings)
        gains = sensitivity(weights, times.of("sensitivity", mean_gradient, model, images, labels))
        order = np.argsort(-gains, kind="stable")
        server.restore_order("bench", 0, order, gains[order].astype(np.float64))
        round_ = Round("bench", repeat, 0, "model", weights.size, public.profile, {0: 0.5, 1: 0.5})
        mask = times.of("selection", _choose, weights, gains, order, round_)
        values = model_format(round_).encode(weights, 0.5)
        ciphertexts = times.of("encrypt", public.encrypt, values)
        total, bare = RoundSum(round_, public), public.accumulator(round_.blocks)
        for client in (0, 1):
            protected = times.of(
                "protection",
                protect_model,
                weights,
                mask,
                round_,
                client=client,
                key=public,
                seed=server.tag_seed(round_),
                blinded=True,
            )
            times.of("adding", total.add, protected.upload, sender=client)
            times.of("add", bare.add, ciphertexts)
            server.take_tag(protected.tag, round_, sender=client)
        closed = total.close()
        times.of("release", server.release, closed.to_bytes(round_), round_)
        times.of("decrypt", secret.decrypt, closed.ciphertexts, weights.size)
    middle = {name: median(each) for name, each in times.items()}
    steps = [
        Step("training", 7.4, middle["training"], None),
        Step("sensitivity", 0.1, middle["sensitivity"], None),
        Step("selection", 13.2, middle["selection"], middle["selection"]),
        Step("encryption", 87.3, middle["protection"], middle["encrypt"]),
        Step(
            f"aggregation, {PAPER_CLIENTS} uploads", 87.9, *(PAPER_CLIENTS * middle[name] for name in ("adding", "add"))
        ),
        Step("decryption, verification", 56.8, middle["release"], middle["decrypt"]),
    ]
    compared = [(step.seconds, step.bare_seconds) for step in steps if step.bare_seconds is not None]
    overhead = sum(ours for ours, _ in compared) / sum(bare for _, bare in compared) - 1
    memory = []
    for clients in (20, 400):
        on_step(f"memory of aggregating {clients} uploads")
        cost = in_own_process(aggregate_many, public_fields(public), ciphertexts, clients, weights.size)
        memory.append(Memory(clients, cost.peak_mb, cost.result))
    return Report("alexnet", profile, weights.size, round_.blocks, overhead, steps, memory)


def _choose(weights: Any, gains: Any, order: Any, round_: Round) -> Mask:
    found = select(
        gains, 1.0, B=2.0, C=0.5, max_mi=2.0, weights=weights, block=round_.block, order=order, objective="protect"
    )
    return found.mask
