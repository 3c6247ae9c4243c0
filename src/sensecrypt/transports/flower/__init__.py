"""Flower (flwr 1.41) as engine: the same protocol on a real fleet, with the key server where no Flower node reaches it.

`server_app()` and `client_app()` are all that a Flower app needs. Each loads only its own side: a ServerApp has neither
PyTorch nor anything that could decrypt.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from sensecrypt.errors import MissingExtra

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

    from sensecrypt.client.problem import Share
    from sensecrypt.client.training import Fit
    from sensecrypt.config import RunConfig


def server_app() -> ServerApp:
    """The ServerApp: it enrols clients, clusters them, and adds what they upload; it holds no key."""
    _require_flower()
    from sensecrypt.transports.flower.serverapp import make_app

    return make_app()


def client_app(load: Callable[[RunConfig, int], Share] | None = None, *, fit: Fit | None = None) -> ClientApp:
    """A ClientApp that trains, chooses what to encrypt, and uploads.

    Args:
        load: from the run's configuration and the client's number to its model and data; None: what the configuration
            names.
        fit: trains a model on a client's samples, in place; None: stochastic gradient descent as configured.
    """
    _require_flower()
    from sensecrypt.transports.flower.clientapp import make_app

    return make_app(load, fit=fit)


def _require_flower() -> None:
    if any(importlib.util.find_spec(module) is None for module in ("flwr", "httpx")):
        raise MissingExtra("the Flower engine", "flower")
