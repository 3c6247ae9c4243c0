"""One iteration of a client's local training, as the run configures it or by the user's own function."""

from __future__ import annotations

from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.client.mistakes import explained
from sensecrypt.client.randomness import seeded
from sensecrypt.client.training import train_on
from sensecrypt.config import RunConfig
from sensecrypt.models import constants, get_vector, require_constants
from sensecrypt.simulation.trainingcache import timed


def train_locally(context: ClientContext, client: int, vector: Vector, number: int) -> tuple[Vector, float]:
    """A client's model after one iteration of local training from `vector`, and the seconds of work that it took."""
    config, recipe = context.config, context.recipe

    def make() -> Vector:
        data, model, seed = context.own(client), context.model(vector), context.seed("batches", number, client)
        with seeded(seed), explained(f"clients[{client}]", model):
            data.begin(seed)
            if recipe.fit is not None:
                before = constants(model)
                recipe.fit(model, data.own, max(number, 0))
                require_constants(model, before)
                return get_vector(model)
            return train_on(
                model,
                data,
                recipe,
                epochs=config.training.local_epochs,
                batch_size=config.training.batch_size,
                learning_rate=config.training.learning_rate,
                momentum=config.training.momentum,
                seed=seed,
                number=max(number, 0),
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
