"""The three apps, plain and protected, on one deployment: SuperLink and SuperNodes with TLS, and a real key service."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from sensecrypt.lab.fleet import flower
from sensecrypt.lab.fleet.commands import tag
from sensecrypt.lab.fleet.fleet import Fleet
from sensecrypt.lab.fleet.processes import running
from tests.examples.test_flower_examples import FOLDER, load_arrays, protect, run, same

NODES = 4
ROUNDS = 2
SAMPLED = 0.75  # of 4 nodes: 3, the least of which the key service releases a sum


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("app-fleet") / "fleet", clients=NODES, tls=True) as running:
        yield running


def deploy(fleet: Fleet, app: Path, *, seconds: float = 240.0) -> dict[str, np.ndarray]:
    """`flwr run APP deploy`, to its end; the final model."""
    number = flower.submit_app(fleet.folder, app)
    server_app, end, looks = (tag("superlink", fleet.folder), "flwr-serverapp"), time.monotonic() + seconds, 0
    while not (app / "out.npz").exists() or running(*server_app):
        time.sleep(0.2)
        looks = 0 if running(*server_app) else looks + 1
        assert time.monotonic() < end, flower.run_log(fleet.folder, number)[-3000:]
        assert looks < 100, flower.run_log(fleet.folder, number)[-3000:]  # it has ended without a model
    return load_arrays(app)


def protected(fleet: Fleet, app: str, folder: Path) -> tuple[Path, Path]:
    """The plain app and the one with the three changed lines."""
    plain, ours = folder / "plain", folder / "ours"
    for each in (plain, ours):
        shutil.copytree(FOLDER / app, each)
        out = json.dumps(str(each / "out.npz"))
        for name, value in (("num-server-rounds", ROUNDS), ("out", out), ("fraction-train", SAMPLED)):
            project = each / "pyproject.toml"
            project.write_text(re.sub(rf"(?m)^{name} = .*$", f"{name} = {value}", project.read_text()))
    protect(ours)
    server = ours / "server_app.py"
    server.write_text(server.read_text().replace('"in-process"', json.dumps(fleet.folder.read().dkms_url)))
    return plain, ours


def lengths(fleet: Fleet) -> list[int]:
    return [len(fleet.folder.log(f"node-{node}").read_text()) for node in range(NODES)]


def trained(fleet: Fleet, before: list[int]) -> list[list[int]]:
    """The nodes that received a message to train, round by round, from what their logs have beyond these lengths."""
    logs = [fleet.folder.log(f"node-{node}").read_text()[before[node] :] for node in range(NODES)]
    received = [" ".join(re.findall(r"Receiving: (\w+) message", log)).split("evaluate") for log in logs]
    return [[node for node in range(NODES) if "train" in received[node][number]] for number in range(ROUNDS)]


@pytest.mark.slow
def test_fedadam_over_a_sample_of_the_nodes(fleet, tmp_path, monkeypatch):
    """The plain app runs in this process over the nodes that the deployment drew: no two runs draw the same ones."""
    plain, ours = protected(fleet, "torch-fedadam", tmp_path)
    before = lengths(fleet)
    model = deploy(fleet, ours)
    drawn = trained(fleet, before)
    assert [len(nodes) for nodes in drawn] == [3] * ROUNDS
    numbers = iter(drawn)
    draw = lambda nodes, size: nodes if size == len(nodes) else [100 + node for node in next(numbers)]  # noqa: E731
    monkeypatch.setattr(random, "sample", draw)
    same(run(plain, nodes=NODES), model, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("app", ["sklearn-fedavg", "torch-fedavg"])
def test_fedavg_over_all_nodes(fleet, app, tmp_path):
    plain, ours = protected(fleet, app, tmp_path)
    same(deploy(fleet, plain), deploy(fleet, ours), 1e-6)
