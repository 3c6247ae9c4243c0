"""The ClientApp: trains on the client's own digits, and evaluates on others of its own."""

from __future__ import annotations

import task
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received model on this client's data."""
    net = task.Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    data, _ = task.load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    config = context.run_config
    loss = task.train(net, data, epochs=int(config["local-epochs"]), learning_rate=float(config["learning-rate"]))
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(data.dataset)})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the received model on this client's data."""
    net = task.Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, data = task.load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    loss, accuracy = task.test(net, data)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(data.dataset)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
