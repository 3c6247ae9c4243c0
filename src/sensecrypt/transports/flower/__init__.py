"""Flower (flwr 1.41) as transport: the protocol on a real fleet, with a key server outside of Flower.

A Flower app needs `server_app()` and `client_app()` only. Each imports its own side: a ServerApp imports neither
PyTorch nor code that decrypts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sensecrypt.extras import require

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

    from sensecrypt.client.problem import Share
    from sensecrypt.client.training import Evaluate, Fit, Loss, MakeOptimizer, MakeScheduler, Metric
    from sensecrypt.config import RunConfig


def server_app() -> ServerApp:
    """The ServerApp: it enrols clients, clusters them, and adds their uploads; it has no key."""
    require("a ServerApp", "flower")
    from sensecrypt.transports.flower.serverapp import make_app

    return make_app()


def client_app(
    load: Callable[[RunConfig, int], Share] | None = None,
    *,
    loss: Loss | None = None,
    fit: Fit | None = None,
    optimizer: MakeOptimizer | None = None,
    scheduler: MakeScheduler | None = None,
    proximal_mu: float = 0.0,
    metrics: Mapping[str, Metric] | None = None,
    evaluate: Evaluate | None = None,
    device: str = "cpu",
) -> ClientApp:
    """A ClientApp that trains, selects what to encrypt, and uploads.

    The arguments are those of `sensecrypt.federate`.

    Args:
        load: from the run's configuration and the client's number to its model and data; None: those that the
            configuration names.
        loss: of a model's output and the batch.
        fit: trains a model on the client's own data, in place, in one round.
        optimizer: from parameters to an optimizer; None: stochastic gradient descent as configured.
        scheduler: from an optimizer to a schedule with one step per round.
        proximal_mu: μ of FedProx.
        metrics: named metrics of a model's output and a batch.
        evaluate: named metrics of a model on test data.
        device: `cpu`, `cuda`, `mps`, or `auto`.
    """
    require("a ClientApp", "flower", "torch")
    from sensecrypt.client.checking import make_recipe
    from sensecrypt.transports.flower.clientapp import make_app

    recipe = make_recipe(
        loss=loss,
        fit=fit,
        optimizer=optimizer,
        scheduler=scheduler,
        proximal_mu=proximal_mu,
        metrics=metrics,
        evaluate=evaluate,
        device=device,
    )
    return make_app(load, recipe=recipe)
