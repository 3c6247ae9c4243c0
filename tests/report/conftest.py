from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sensecrypt.config import make_config
from sensecrypt.coordinator.checkpoint import RunState
from sensecrypt.records import ServerRecord, clients_of, to_fields
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

SETTINGS = {"rounds": 3, "clients": 8, "profile": "insecure-test", "workers": 1, "partition": "categories:2"}


@pytest.fixture(scope="session")
def played(tmp_path_factory) -> Path:
    """The folder of a small run whose clients encrypt different shares; only to be read."""
    path = tmp_path_factory.mktemp("report") / "run"
    settings = {
        **SETTINGS,
        "always_encrypt": "nothing",
        "budget": "paper",
        "objective": "balance",
        "crypto": "calibrated",
    }
    run_local(make_config(settings), RunFolder(path))
    return path


@pytest.fixture
def run(played, tmp_path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(played, tmp_path / "run"))


@pytest.fixture
def fleet(run) -> Path:
    """The same run as an aggregator of a fleet writes it: no layers, no models, accuracies in lines of their own."""
    lines, told = [], []
    for record in map(to_fields, RunFolder(run).records()):
        record.pop("layers", None)
        if "accuracy" in record:
            told.append({"round": record["round"], "evaluated": record["client"], "accuracy": record.pop("accuracy")})
        lines.append(record)
    told[0]["accuracy"] = math.nan
    lines.append({"round": 2, "refused": "node 7"})
    (run / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, *told]))
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    rows = np.random.default_rng(0).normal(size=(8, 16)) + 10 * labels[:, None]
    latest = np.array([[2, 0], [2, 0]])
    RunState(3, "as it came", 100, "", None, labels, np.ones(8, dtype=np.int64), rows, latest).save(RunFolder(run))
    for absent in (run / "map.json", *run.glob("model-*")):
        absent.unlink()
    outcome = {"model_sha256": ["a", "b"], "clusters": labels.tolist(), "why": "as it came", "wall_seconds": 3.0}
    (run / "outcome.json").write_text(json.dumps(outcome))
    return run


def enlarge(played: Path, path: Path, *, rounds: int, clients: int) -> Path:
    """The run with more rounds and clients, which do what the few did."""
    config = {**json.loads((played / "run.json").read_text())["config"], "rounds": rounds, "clients": clients}
    folder = RunFolder(path)
    folder.create(make_config(config))
    known = {(record.round, record.client): record for record in clients_of(RunFolder(played).records())}
    for number in range(-1, rounds):
        like = min(number, 2)
        folder.append([replace(known[like, client % 8], round=number, client=client) for client in range(clients)])
        folder.append([ServerRecord(round=number, cluster=cluster, add_seconds=0.1) for cluster in (0, 1)])
    return path
