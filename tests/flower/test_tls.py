"""The three apps, plain and protected, on one deployment: SuperLink and SuperNodes with TLS, and a real key service."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from sensecrypt.lab.fleet import flower
from sensecrypt.lab.fleet.fleet import Fleet
from tests.examples.test_flower_examples import APPS, FOLDER, load_arrays, protect, same

NODES = 4
SAMPLED = 0.75  # of 4 nodes: 3, as few as the key service releases a sum of


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("app-fleet") / "fleet", clients=NODES, tls=True) as running:
        yield running


def deploy(fleet: Fleet, app: Path, *, seconds: float = 240.0) -> None:
    """`flwr run APP deploy`, until the app has written its final model."""
    number = flower.submit_app(fleet.folder, app)
    begun = asked = time.monotonic()
    while not (app / "out.npz").exists():
        time.sleep(0.1)
        if time.monotonic() - asked < 10:  # `flwr list` is a process of a second
            continue
        asked = time.monotonic()
        status = flower.run_status(fleet.folder, number)
        running = not status[0].startswith("finished") and asked - begun < seconds
        assert running, f"{status}: {flower.run_log(fleet.folder, number)[-3000:]}"
    while not (status := flower.run_status(fleet.folder, number))[0].startswith("finished"):
        assert time.monotonic() - begun < seconds, status
    assert status[0] == "finished:completed", f"{status}: {flower.run_log(fleet.folder, number)[-3000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("app", APPS)
def test_a_deployment_gives_the_model_of_the_plain_app(fleet, app, tmp_path):
    """Flower samples nodes from Python's own generator, which the apps seed: both runs draw the same nodes of a fleet.

    Were they others, models trained on other digits would differ by much more than the tolerance.
    """
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    for folder in (plain, ours):
        shutil.copytree(FOLDER / app, folder)
        out = json.dumps(str(folder / "out.npz"))
        for name, value in (("num-server-rounds", 2), ("out", out), ("fraction-train", SAMPLED)):
            project = folder / "pyproject.toml"
            project.write_text(re.sub(rf"(?m)^{name} = .*$", f"{name} = {value}", project.read_text()))
    protect(ours)
    server = ours / "server_app.py"
    url = fleet.folder.read().dkms_url
    server.write_text(server.read_text().replace('"in-process"', json.dumps(url)))
    for folder in (plain, ours):
        deploy(fleet, folder)
    same(load_arrays(plain), load_arrays(ours), 1e-5 if "fedadam" in app else 1e-6)
