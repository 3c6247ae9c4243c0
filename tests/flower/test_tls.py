"""The same app in a deployment: SuperLink and three SuperNodes with TLS and node keys, and a real key service."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from sensecrypt.lab.fleet import flower
from sensecrypt.lab.fleet.fleet import Fleet
from tests.examples.test_flower_examples import FOLDER, load_arrays, protect, run, same

NODES = 3


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("app-fleet") / "fleet", clients=NODES, tls=True) as running:
        yield running


def deploy(fleet: Fleet, app: Path, *, seconds: float = 240.0) -> None:
    """`flwr run APP deploy`, to its end."""
    number = flower.submit_app(fleet.folder, app)
    end = time.monotonic() + seconds
    while not (status := flower.run_status(fleet.folder, number))[0].startswith("finished"):
        assert time.monotonic() < end, f"{status}: {flower.run_log(fleet.folder, number)[-3000:]}"
        time.sleep(1.0)
    assert status[0] == "finished:completed", f"{status}: {flower.run_log(fleet.folder, number)[-3000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("app", ["sklearn-fedavg"])
def test_a_deployment_gives_the_model_of_the_plain_app(fleet, app, tmp_path):
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    for folder in (plain, ours):
        shutil.copytree(FOLDER / app, folder)
        for name, value in (("num-server-rounds", "2"), ("out", json.dumps(str(folder / "out.npz")))):
            project = folder / "pyproject.toml"
            project.write_text(re.sub(rf"(?m)^{name} = .*$", f"{name} = {value}", project.read_text()))
    protect(ours)
    server = ours / "server_app.py"
    url = fleet.folder.read().dkms_url
    server.write_text(server.read_text().replace('"in-process"', json.dumps(url)))
    deploy(fleet, ours)
    same(run(plain, nodes=NODES), load_arrays(ours), 1e-5 if "fedadam" in app else 1e-6)
