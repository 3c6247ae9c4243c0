"""A Flower app in one process: real strategies, ClientApps and mods, and a grid between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy
from flwr.supercore.task_identity import TaskIdentity

from sensecrypt.flower import SenseCrypt, sensecrypt_mod

FAST = "insecure-test"
Change = Callable[[int, Message], Message | None]  # a node's message or reply, to what arrives


def model(seed: int = 0) -> dict[str, np.ndarray]:
    """Layers, and buffers as batch normalisation has them."""
    rng = np.random.default_rng(seed)
    return {
        "weight": rng.normal(size=(7, 5)).astype(np.float32),
        "bias": np.zeros(5, dtype=np.float32),
        "mean": rng.normal(size=5),
        "batches": np.array(0, dtype=np.int64),
    }


def client_app(mods=(sensecrypt_mod,), *, examples=lambda node: 20 + 10 * (node % 3), metric="num-examples"):
    """Trains deterministically; every node has other data."""
    app = ClientApp()

    @app.train(mods=list(mods))
    def train(message: Message, context: Context) -> Message:
        arrays = {key: array.numpy() for key, array in message.content["arrays"].items()}
        rng = np.random.default_rng(context.node_id)
        for key, array in arrays.items():
            if array.dtype.kind == "i":
                arrays[key] = array + 3
            else:
                arrays[key] = (0.9 * array + 0.3 * rng.normal(size=array.shape)).astype(array.dtype)
        metrics = MetricRecord({metric: examples(context.node_id), "loss": float(context.node_id)})
        content = RecordDict({"arrays": record(arrays), "metrics": metrics})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        weight = message.content["arrays"]["weight"].numpy()
        metrics = MetricRecord({"num-examples": 10, "accuracy": float(weight.mean())})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def record(arrays: dict[str, np.ndarray]) -> ArrayRecord:
    return ArrayRecord({key: _array(array) for key, array in arrays.items()})


def _array(array):
    from flwr.app import Array

    return Array(np.asarray(array))


@dataclass
class Loop(Grid):
    """Delivers to one ClientApp as many nodes."""

    app: ClientApp = field(default_factory=client_app)
    nodes: int = 5
    config: Callable[[int], dict] = lambda node: {}
    before: Change = lambda node, message: message
    after: Change = lambda node, message: message

    def __post_init__(self):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self._numbers = itertools.count()
        self.states = {100 + i: RecordDict() for i in range(self.nodes)}
        self.sent: list[Message] = []
        self.received: list[Message] = []
        self.run_config: dict = {}

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *args, **more):
        raise NotImplementedError

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.states)

    def send_and_receive(self, messages, *, timeout=None):
        in_order = sorted(messages, key=lambda message: message.metadata.dst_node_id)
        replies = [self._deliver(message) for message in in_order]
        return [reply for reply in replies if reply is not None]

    def _deliver(self, message: Message) -> Message | None:
        node = message.metadata.dst_node_id
        message.metadata.__dict__["_message_id"] = f"message-{next(self._numbers)}"
        self.sent.append(message)
        training = message.metadata.message_type == "train"
        arrives = self.before(node, message) if training else message
        if arrives is None:
            return None
        context = Context(1, node, self.config(node), self.states[node], self.run_config)
        try:
            reply = self.app(arrives, context)
        except Exception as error:
            reply = Message(Error(2, f"Traceback\n{error}"), reply_to=message)
        self.received.append(reply)
        return self.after(node, reply) if training else reply


def play(strategy: Strategy, grid: Loop | None = None, *, rounds: int = 2, start=None) -> Result:
    """All rounds."""
    return strategy.start(grid or Loop(), record(model() if start is None else start), num_rounds=rounds)


def protected(strategy: Strategy | None = None, **more) -> SenseCrypt:
    """In one process, with a fast key."""
    return SenseCrypt(strategy or FedAvg(), **{"key_service": "in-process", "profile": FAST, **more})


def plain(strategy: Strategy, *, rounds: int = 2, nodes: int = 5, **more) -> Result:
    """The same app without us."""
    return play(strategy, Loop(client_app(mods=(), **more), nodes), rounds=rounds)


def largest_difference(one: Result, other: Result) -> float:
    """Over all arrays."""
    assert list(one.arrays) == list(other.arrays)
    return max(
        float(np.abs(one.arrays[key].numpy().astype(float) - other.arrays[key].numpy()).max()) for key in one.arrays
    )
