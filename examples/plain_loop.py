"""The whole protocol as a plain loop: one cluster, one machine, with client, aggregator and key server in one loop.

    python examples/plain_loop.py

It gives the same models, to the byte, as `sensecrypt run` with the same settings (a test compares them).
"""

from __future__ import annotations

import numpy as np
import torch

from sensecrypt import Mask, encryption_budgets, generate_keypair, select, sensitivity
from sensecrypt.algo.clipping import clip_bound, clip_update
from sensecrypt.client.problem import configured_problem
from sensecrypt.client.training import train
from sensecrypt.config import RunConfig, make_config
from sensecrypt.models import get_vector, mean_gradient, set_vector
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.protection import model_format, protect_model
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import model_of, moved_after
from sensecrypt.rng import derive_seed


def run(config: RunConfig) -> np.ndarray:
    """Train one model for all clients; the final weights."""
    torch.set_num_threads(1)
    problem = configured_problem(config)
    public, secret = generate_keypair(config.encryption.profile)
    key_server = KeyServer(secret)
    devices, training = config.devices(0), config.training
    budgets = encryption_budgets([each.bandwidth for each in devices], [each.cpus for each in devices])
    samples = [len(labels) for _, labels in problem.clients]
    weights = {client: count / sum(samples) for client, count in enumerate(samples)}
    initial = get_vector(problem.build())
    clip = clip_bound(training.clip, initial)
    vector, moved = initial, None

    for number in range(training.rounds):
        round_ = Round("loop", number, 0, "model", vector.size, public.profile, weights, clip=clip)
        aggregator = RoundSum(round_, public)
        for client, (inputs, labels) in enumerate(problem.clients):
            # The client: train, score, clip the update, choose blocks, encrypt them, blind the rest, tag all.
            model = problem.build()
            set_vector(model, vector)
            trained = train(
                model,
                inputs,
                labels,
                epochs=training.local_epochs,
                batch_size=training.batch_size,
                learning_rate=training.learning_rate,
                momentum=training.momentum,
                seed=derive_seed(config.problem.seed, "batches", number, client),
            )
            scores = sensitivity(trained, mean_gradient(model, inputs, labels))
            mask: Mask = select(
                scores,
                budgets[client],
                B=config.selection.B,
                C=config.selection.C,
                block=round_.block,
                on_infeasible="budget",
            ).mask
            update, _ = clip_update(trained - vector, norm=clip, largest=model_format(round_).largest)
            seed = key_server.tag_seed(round_)
            protected = protect_model(update, mask, round_, client=client, key=public, seed=seed, blinded=True)
            # The aggregator adds what it cannot read; the key server keeps the tag, with the blinding's seed.
            aggregator.add(protected.upload, sender=client)
            key_server.take_tag(protected.tag, round_, sender=client)
        # The key server decrypts, unblinds and verifies the sum, once; clients divide by the weights that arrived.
        released = key_server.release(aggregator.close().to_bytes(round_), round_)
        moved, _ = moved_after(moved, released, round_)
        vector = model_of(initial, moved, round_)
        hidden = aggregator.encrypted_contributors.mean() / config.problem.clients
        print(f"round {number}: {len(released.contributors)} clients, {hidden:.0%} of their blocks encrypted")
    return vector


if __name__ == "__main__":
    run(make_config({"clients": 5, "partition": "iid", "rounds": 2, "layout": "blocks"}))
