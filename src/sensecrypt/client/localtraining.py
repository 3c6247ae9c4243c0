"""One iteration of a client's local training, as the run configures it or by the user's own function."""

from __future__ import annotations

from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.client.randomness import stir
from sensecrypt.client.training import train
from sensecrypt.config import RunConfig
from sensecrypt.models import get_vector
from sensecrypt.simulation.trainingcache import timed


def train_locally(context: ClientContext, client: int, vector: Vector, number: int) -> tuple[Vector, float]:
    """A client's model after one iteration of local training from `vector`, and the seconds of work that it took."""
    config = context.config
    images, labels = context.data[client]

    def make() -> Vector:
        model, seed = context.model(vector), context.seed("batches", number, client)
        if context.local:
            stir()
        if context.fit is not None:
            context.fit(model, images, labels, seed)
            return get_vector(model)
        return train(
            model,
            images,
            labels,
            epochs=config.training.local_epochs,
            batch_size=config.training.batch_size,
            learning_rate=config.training.learning_rate,
            momentum=config.training.momentum,
            seed=seed,
        )

    training = config.training
    settings = (training.local_epochs, training.batch_size, training.learning_rate, training.momentum)
    key = ("train", *problem_key(config), *settings, number, client)
    return timed(context.cache, key, vector, make)


def problem_key(config: RunConfig) -> tuple[object, ...]:
    """What training results depend on besides the settings of training itself."""
    return (
        config.problem.dataset,
        config.problem.model,
        config.problem.clients,
        config.problem.partition,
        config.problem.seed,
    )
