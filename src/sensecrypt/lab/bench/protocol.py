"""`sensecrypt bench protocol`: the steps of a client's round, the overhead of the protocol, the aggregator's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from sensecrypt.algo.selection import select
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.client.training import train, warm_up
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.publicfile import public_fields
from sensecrypt.lab.bench.aggregation import aggregate_many
from sensecrypt.lab.bench.measure import Times, in_own_process
from sensecrypt.lab.bench.table import Report, Shown, described
from sensecrypt.models import build_model, mean_gradient
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.protection import model_format, protect_model
from sensecrypt.protocol.round import Round

SAMPLES = 2500  # a twentieth of CIFAR-10
PAPER_CLIENTS = 20
CLIENTS = 3  # with fewer, the key server releases nothing


def run(*, profile: str, repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Run a round of AlexNet on one core, all encrypted with `profile`, with the fewest clients of a sum; medians.

    Each step has the paper's mean, our seconds, and those of the bare calls within ours.
    """
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
    learn = partial(train, epochs=1, batch_size=64, learning_rate=0.015, momentum=0.5, seed=seed)
    choose = partial(select, B=2.0, C=0.5, max_mi=2.0, objective="protect")
    for repeat in range(repeats):
        on_step(f"repeat {repeat + 1} of {repeats}")
        weights = times.of("training", partial(learn, model, images, labels))
        gains = sensitivity(weights, times.of("sensitivity", partial(mean_gradient, model, images, labels)))
        order = np.argsort(-gains, kind="stable")
        server.restore_order("bench", 0, order, gains[order].astype(np.float64))
        shares = dict.fromkeys(range(CLIENTS), 1 / CLIENTS)
        round_ = Round("bench", repeat, 0, "model", weights.size, public.profile, shares)
        found = times.of("selection", partial(choose, gains, 1.0, weights=weights, block=round_.block, order=order))
        values = model_format(round_).encode(weights, round_.share(0))
        ciphertexts = times.of("encrypt", partial(public.encrypt, values))
        total, bare = RoundSum(round_, public), public.accumulator(round_.blocks)
        protect = partial(protect_model, weights, found.mask, round_, key=public, blinded=True)
        for client in shares:
            protected = times.of("protection", partial(protect, client=client, seed=server.tag_seed(round_)))
            times.of("adding", partial(total.add, protected.upload, sender=client))
            times.of("add", partial(bare.add, ciphertexts))
            server.take_tag(protected.tag, round_, sender=client)
        closed = total.close()
        times.of("release", partial(server.release, closed.to_bytes(round_), round_))
        times.of("decrypt", partial(secret.decrypt, closed.ciphertexts, weights.size))
    middle = times.medians
    adding, add = (PAPER_CLIENTS * middle[name] for name in ("adding", "add"))
    table: list[tuple[str, float, float, float | None]] = [
        ("training", 7.4, middle["training"], None),
        ("sensitivity", 0.1, middle["sensitivity"], None),
        ("selection", 13.2, middle["selection"], middle["selection"]),
        ("encryption", 87.3, middle["protection"], middle["encrypt"]),
        (f"aggregation, {PAPER_CLIENTS} uploads", 87.9, adding, add),
        ("decryption, verification", 56.8, middle["release"], middle["decrypt"]),
    ]
    steps = [dict(zip(("name", "paper_seconds", "seconds", "bare_seconds"), step, strict=True)) for step in table]
    compared = [(seconds, bare) for _, _, seconds, bare in table if bare is not None]
    overhead = sum(ours for ours, _ in compared) / sum(bare for _, bare in compared) - 1
    memory = []
    for clients in (20, 400):
        on_step(f"memory of aggregating {clients} uploads")
        cost = in_own_process(aggregate_many, public_fields(public), ciphertexts, clients, weights.size)
        memory.append({"clients": clients, "peak_mb": cost.peak_mb, "grown_mb": cost.result})
    sizes: Report = {"parameters": weights.size, "ciphertexts": round_.blocks, "overhead": overhead, "repeats": repeats}
    return {"model": "alexnet", "profile": profile, **sizes, "steps": steps, "memory": memory}


def shown(report: Report) -> Iterator[Shown]:
    """The steps, the overhead of the protocol, and the memory."""
    yield described(
        "One round of {model}, all {parameters:,} parameters encrypted in {ciphertexts:,} ciphertexts of {profile}, "
        "one core (medians of {repeats}, seconds)".format(**report),
        [
            ("method", "name"),
            ("paper", "paper_seconds:.1f"),
            ("ours", "seconds:.3f"),
            ("bare calls", "bare_seconds:.3f"),
        ],
        report["steps"],
    )
    yield "The protocol adds {overhead:.0%} to the bare calls.".format(**report)
    for each in report["memory"]:
        yield "Aggregating {clients} uploads: peak {peak_mb:.0f} MB, of which {grown_mb:.1f} to add.".format(**each)
