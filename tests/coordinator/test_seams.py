"""Where a newcomer adds things: a server rule, and another way for messages to travel, without touching the loop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from sensecrypt.algo import serverupdates
from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client.context import ClientContext
from sensecrypt.client.problem import always_of, configured_problem
from sensecrypt.config import make_config
from sensecrypt.coordinator import run as coordinator
from sensecrypt.coordinator.ports import Patience, Reply
from sensecrypt.models import get_vector
from sensecrypt.protocol.requests import Parts
from sensecrypt.protocol.updates import model_from
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.keys import make_keys
from sensecrypt.transports.local.run import run_local
from sensecrypt.transports.local.transport import LocalClients

SMALL = {
    "dataset": "digits",
    "clients": 5,
    "partition": "iid",
    "clustering": "none",
    "rounds": 2,
    "profile": "insecure-test",
    "budget": "paper",
    "workers": 1,
}


class ThreadTransport:
    """One thread per message; what is needed of a transport and no more."""

    def __init__(self, handle: LocalClients, service) -> None:
        self._handle, self._service = handle, service

    def present(self, *, seconds: float) -> Mapping[int, str]:
        return dict.fromkeys(range(SMALL["clients"]), "here")

    def ask(self, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:
        answers: queue.Queue[Reply] = queue.Queue()

        def work(client: int, parts: Parts) -> None:
            answers.put(Reply(client, self._handle((client, kind, dict(parts)), self._service.client(client))))

        threads = [threading.Thread(target=work, args=item) for item in requests.items()]
        for thread in threads:
            thread.start()
        for _ in threads:
            yield answers.get()
        for thread in threads:
            thread.join()

    def refusals(self) -> list[dict[str, object]]:
        return []


@pytest.mark.parametrize("policy", ["sensecrypt", "plaintext"])
def test_a_transport_of_threads_ends_in_the_same_model(tmp_path: Path, policy):
    torch.set_num_threads(1)  # as in the workers: sums of floats depend on it
    config = make_config({**SMALL, "policy": policy})
    problem = configured_problem(config)
    model = problem.build()
    initial, always = get_vector(model), always_of(config, model, problem.classes)
    clip, keys = clip_bound(config.training.clip, initial), make_keys(config, always)
    context = ClientContext(config, problem.build, dict(enumerate(problem.clients)), keys.clients, always=always)
    clients = LocalClients("threads", context, initial, clip, tmp_path / "clients")
    folder = RunFolder(tmp_path / "threads")
    folder.create(config)
    transport, patience = ThreadTransport(clients, keys.service), Patience(0, 0, 0)
    coordinator.run(transport, keys.service, folder, config, name="threads", patience=patience, volatile=keys.service)
    [expected] = run_local(config, RunFolder(tmp_path / "local")).vectors
    assert model_from(initial, keys.service.moved(0), clip).tobytes() == expected.tobytes()


def test_a_new_server_rule_is_one_function(tmp_path: Path, monkeypatch):
    def fedsign(mean, state, rule):
        return rule.learning_rate * np.sign(mean), {}

    monkeypatch.setitem(serverupdates.RULES, "fedavgm", fedsign)  # under a name that settings have
    config = make_config({**SMALL, "server": "fedavgm", "server_learning_rate": 2.0**-8, "rounds": 1})
    [vector] = run_local(config, RunFolder(tmp_path / "run")).vectors
    steps = vector.astype(np.float64) - get_vector(configured_problem(config).build())
    assert set(np.unique(np.round(steps * 2**8))) <= {-1.0, 0.0, 1.0}
