"""Federated training of a user's own model, as a function call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from sensecrypt.client.problem import own_problem
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.result import Result
from sensecrypt.transports.local.run import run_local
from sensecrypt.types import Device


def federate(
    model: nn.Module,
    clients: Sequence[Any],
    *,
    test: Any,
    devices: Sequence[Device],
    out: Path | str,
    settings: dict[str, Any] | None = None,
) -> Result:
    """Train `model` on the clients' data with per-device selective encryption.

    Args:
        model: a classifier; its weights are where training starts.
        clients: each client's data: a pair (inputs, labels), or a loader that yields such pairs.
        test: data to measure accuracy on, likewise.
        devices: one for each client.
        out: the run's folder.
        settings: of the run, by the names of `sensecrypt.config.RunConfig`.

    Returns:
        The trained model of each cluster (`models()`), who is in which, accuracies and records.
    """
    if len(devices) != len(clients):
        raise InvalidInput("devices", f"are {len(devices)}, clients {len(clients)}", "pass one device a client")
    fleet = {"cpus": [device.speed for device in devices], "bandwidths": [device.bandwidth for device in devices]}
    config = make_config({"dataset": "own", **(settings or {}), **fleet, "clients": len(clients)})
    return run_local(config, RunFolder(Path(out)), problem=own_problem(model, clients, test))
