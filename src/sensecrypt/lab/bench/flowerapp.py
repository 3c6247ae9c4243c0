"""The app of `bench flower`: a perceptron on digits, whose rounds are plain and protected in turn."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy
from sklearn.datasets import load_digits
from torch import nn

from sensecrypt.flower import SenseCrypt, sensecrypt_mod
from sensecrypt.flower.instructions import RECORD

PLAIN = "plain"
_RATE = 0.1


def network(seed: int = 0) -> nn.Module:
    """A perceptron with 64 inputs, 32 hidden units and ten classes."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def _where_asked(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Apply the mod in protected rounds only."""
    asked = RECORD in message.content.config_records
    return sensecrypt_mod(message, context, call_next) if asked else call_next(message, context)


def client_app() -> ClientApp:
    """The ClientApp: it trains on every n-th digit."""
    app = ClientApp()

    @app.train(mods=[_where_asked])
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


def server_app() -> ServerApp:
    """The ServerApp: federated averaging over a sample of the clients; it writes times and bytes to a file."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        random.seed(0)
        config = context.run_config
        methods = str(config["methods"]).split(",")
        strategy = _Alternating([_strategy(method, int(config["clients-per-round"])) for method in methods])
        times: list[float] = []

        def evaluate(_number: int, _arrays: ArrayRecord) -> None:
            times.append(time.monotonic())

        rounds = int(config["num-server-rounds"]) * len(methods)
        initial = ArrayRecord(network().state_dict())
        strategy.start(grid=grid, initial_arrays=initial, num_rounds=rounds, evaluate_fn=evaluate)
        measured = {"seconds": [b - a for a, b in itertools.pairwise(times)], "bytes": strategy.sizes}
        Path(str(config["out"])).write_text(json.dumps(measured), encoding="utf-8")

    return app


def _strategy(method: str, per_round: int) -> Strategy:
    inner = FedAvg(fraction_train=0.0001, fraction_evaluate=0.0, min_train_nodes=per_round)
    return inner if method == PLAIN else SenseCrypt(inner, key_service="in-process", profile=method)


class _Alternating(Strategy):
    """Alternates between strategies, so that the load of the machine is the same for all."""

    def __init__(self, strategies: list[Strategy]) -> None:
        self._strategies = strategies
        self.sizes: list[int] = []

    def _turn(self, number: int) -> tuple[Strategy, int]:
        """The strategy of a round, and the round's number for that strategy."""
        turn, index = divmod(number - 1, len(self._strategies))
        return self._strategies[index], turn + 1

    def summary(self) -> None:
        for strategy in self._strategies:
            strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        strategy, number = self._turn(server_round)
        return strategy.configure_train(number, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        strategy, number = self._turn(server_round)
        received = list(replies)
        good = [reply.content for reply in received if not reply.has_error()]
        self.sizes.append(sum(record.count_bytes() for content in good for record in content.values()))
        return strategy.aggregate_train(number, received)

    def configure_evaluate(self, *_: object) -> Iterable[Message]:
        """No evaluation: only training is measured."""
        return []

    def aggregate_evaluate(self, *_: object) -> MetricRecord | None:
        """No metrics."""
        return None
