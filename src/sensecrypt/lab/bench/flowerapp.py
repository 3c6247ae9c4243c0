"""The app that `bench flower` plays: a perceptron on digits, with and without the lines that protect it."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from flwr import clientapp
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy
from sklearn.datasets import load_digits
from torch import nn

from sensecrypt import flower

_RATE = 0.1


def network(seed: int = 0) -> nn.Module:
    """64 inputs, 32 hidden numbers, ten classes."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def client_app(*, protected: bool) -> clientapp.ClientApp:
    """Trains on every n-th digit."""
    app = flower.ClientApp() if protected else clientapp.ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        net = network()
        net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        own = slice(int(context.node_config["partition-id"]), None, int(context.node_config["num-partitions"]))
        images, labels = (torch.tensor(each[own]) for each in load_digits(return_X_y=True))
        optimizer = torch.optim.SGD(net.parameters(), lr=_RATE)
        for _ in range(int(context.run_config["local-steps"])):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images.float() / 16), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        metrics = MetricRecord({"num-examples": len(labels)})
        content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def server_app(*, protected: bool) -> ServerApp:
    """Federated averaging over a sample of the clients; its times and bytes go to a file."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        random.seed(0)
        config = context.run_config
        least = int(config["clients-per-round"])
        strategy: Strategy = FedAvg(fraction_train=0.0001, fraction_evaluate=0.0, min_train_nodes=least)
        if protected:
            strategy = flower.SenseCrypt(strategy, key_service="in-process", profile=str(config["profile"]))
        sizes = _counted(strategy)
        times: list[float] = []

        def evaluate(_number: int, _arrays: ArrayRecord) -> None:
            times.append(time.monotonic())

        rounds = int(config["num-server-rounds"])
        initial = ArrayRecord(network().state_dict())
        strategy.start(grid=grid, initial_arrays=initial, num_rounds=rounds, evaluate_fn=evaluate)
        told = {"seconds": [b - a for a, b in itertools.pairwise(times)], "bytes": sizes}
        Path(str(config["out"])).write_text(json.dumps(told), encoding="utf-8")

    return app


def _counted(strategy: Strategy) -> list[int]:
    """How many bytes all replies of a round have, in a list that grows with the rounds."""
    sizes: list[int] = []
    aggregate = strategy.aggregate_train

    def counted(number: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        received = list(replies)
        good = [reply.content for reply in received if not reply.has_error()]
        sizes.append(sum(record.count_bytes() for content in good for record in content.values()))
        return aggregate(number, received)

    strategy.aggregate_train = counted  # type: ignore[method-assign, assignment]
    return sizes
