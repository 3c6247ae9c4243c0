"""The three plain Flower apps, and the same with three changed lines: equal models, in one process and with Ray."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.common.config import flatten_dict, validate_config

from sensecrypt.lab.fleet import simulation
from tests.flower.loop import Loop

FOLDER = Path(__file__).parents[2] / "examples" / "flower"
APPS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
CHANGED = 3  # lines of code, all files of an app together


def protect(folder: Path) -> None:
    """Apply the app's diff."""
    subprocess.run(["git", "apply", "sensecrypt.diff"], cwd=folder, check=True, env={**os.environ, "GIT_DIR": "/-"})  # noqa: S607


@pytest.fixture
def copies(tmp_path, request):
    """The plain app and the protected one."""
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    for folder in (plain, ours):
        shutil.copytree(FOLDER / request.param, folder)
    protect(ours)
    return plain, ours


@contextmanager
def imported(folder: Path, name: str):
    """A module of the app; `task` is the app's own."""
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        for each in ("task", "client_app", "server_app"):
            sys.modules.pop(each, None)


def run(folder: Path, *, nodes: int) -> dict[str, np.ndarray]:
    """All rounds in this process; the final arrays."""
    config = flatten_dict(tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"])
    told = {**config, "out": str(folder / "out.npz")}
    with imported(folder, "client_app") as client, imported(folder, "server_app") as server:
        grid = Loop(client.app, nodes, lambda node: {"partition-id": node - 100, "num-partitions": nodes})
        grid.run_config = told
        server.app(grid, Context(1, 1, {}, RecordDict(), told))
    return load_arrays(folder)


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    return dict(np.load(folder / "out.npz"))


def same(plain: dict[str, np.ndarray], ours: dict[str, np.ndarray], within: float) -> None:
    assert plain.keys() == ours.keys()
    for key, array in plain.items():
        assert array.dtype == ours[key].dtype, key
        assert float(np.abs(array.astype(float) - ours[key]).max()) <= within, key


@pytest.mark.parametrize("app", APPS)
def test_three_lines_change(app):
    lines = (FOLDER / app / "sensecrypt.diff").read_text().splitlines()
    assert sum(line.startswith("+") and not line.startswith("+++") for line in lines) <= CHANGED
    assert {line.split("/", 1)[1] for line in lines if line.startswith("+++")} == {"client_app.py", "server_app.py"}


@pytest.mark.parametrize("app", APPS)
def test_flower_takes_the_project(app):
    project = tomllib.loads((FOLDER / app / "pyproject.toml").read_text())
    valid, errors, _ = validate_config(project, check_module=False)
    assert valid, errors


@pytest.mark.parametrize("copies", APPS, indirect=True, ids=APPS)
def test_the_final_models_are_equal(copies, request):
    plain, ours = (run(folder, nodes=6) for folder in copies)
    same(plain, ours, 1e-5 if "fedadam" in request.node.callspec.id else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("copies", APPS, indirect=True, ids=APPS)
def test_flwr_run_in_a_simulation(copies, tmp_path, request):
    """`flwr run .` with Ray, over all nodes: their ids are random, so that two simulations draw different samples."""
    app = request.node.callspec.id
    more = " fraction-train=1.0" if "fedadam" in app else ""
    plain, ours = (simulate(folder, tmp_path / "home", nodes=4, rounds=2, more=more) for folder in copies)
    same(plain, ours, 1e-5 if "fedadam" in app else 1e-6)


def simulate(folder: Path, home: Path, *, nodes: int, rounds: int, more: str = "") -> dict[str, np.ndarray]:
    out = folder / "out.npz"
    settings = f'out="{out}" num-server-rounds={rounds}{more}'
    printed = simulation.simulate(folder, home, clients=nodes, settings=settings, seconds=300.0)
    assert out.exists(), printed[-3000:]
    return load_arrays(folder)
