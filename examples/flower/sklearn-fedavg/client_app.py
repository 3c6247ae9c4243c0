"""The ClientApp: trains on the client's own digits, and evaluates on others of its own."""

from __future__ import annotations

import warnings

import task
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.exceptions import ConvergenceWarning

app = ClientApp()


def _model(message: Message, context: Context):
    model = task.make_model(int(context.run_config["local-steps"]))
    task.set_arrays(model, {key: array.numpy() for key, array in message.content["arrays"].items()})
    return model


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received model on this client's data."""
    model = _model(message, context)
    (x, y), _ = task.load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few steps a round are meant
        model.fit(x, y)
    arrays = ArrayRecord({key: Array(array) for key, array in task.arrays_of(model).items()})
    metrics = MetricRecord({"train_acc": float(model.score(x, y)), "num-examples": len(x)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the received model on this client's data."""
    model = _model(message, context)
    _, (x, y) = task.load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    metrics = MetricRecord({"eval_acc": float(model.score(x, y)), "num-examples": len(x)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
