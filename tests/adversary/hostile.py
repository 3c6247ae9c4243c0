"""A member that sends another update than the one that it trained and clipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import sensecrypt.client.update as client_update
from sensecrypt.client.update import Task

UpdateOf = Callable[[Task, np.ndarray], np.ndarray]


def sends(monkeypatch: pytest.MonkeyPatch, client: int, update_of: UpdateOf) -> None:
    """This client protects, tags and sends `update_of(task, update)` in the place of its update."""
    make, protect = client_update._protected, client_update.protect_model
    tasks: dict[int, Task] = {}

    def remembering(context, task, *more):
        tasks[task.client] = task
        return make(context, task, *more)

    def other(update, mask, round_, **settings):
        if settings["client"] == client:
            update = update_of(tasks[client], update)
        return protect(update, mask, round_, **settings)

    monkeypatch.setattr(client_update, "_protected", remembering)
    monkeypatch.setattr(client_update, "protect_model", other)
