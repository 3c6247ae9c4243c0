"""One process per run: a second one is refused, and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from sensecrypt.client import scoring
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.records import clients_of
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

SMALL = {
    "dataset": "digits",
    "clients": 4,
    "partition": "iid",
    "clustering": "none",
    "rounds": 2,
    "profile": "insecure-test",
    "budget": "paper",
    "workers": 1,
}


def test_a_second_process_is_refused_and_the_run_goes_on_unharmed(tmp_path):
    folder = RunFolder(tmp_path / "run")

    def second(number, *_):
        command = [sys.executable, "-m", "sensecrypt", "run", "--out", str(folder.path), "--resume", "--no-report"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "in use by another process" in done.stderr
        assert "Traceback" not in done.stderr

    result = run_local(make_config(SMALL), folder, on_round=second)
    assert sorted({record.round for record in result.log}) == [-1, 0, 1]
    clients = [(record.round, record.client) for record in clients_of(result.log)]
    assert len(clients) == len(set(clients))


def test_a_resumed_run_takes_more_rounds_and_another_rate(tmp_path):
    folder = RunFolder(tmp_path / "run")
    run_local(make_config(SMALL), folder)
    config = folder.change_config({"rounds": "3", "learning_rate": "0.01"})
    result = run_local(config, folder, resume=True)
    assert sorted({record.round for record in result.records}) == [0, 1, 2]
    assert json.loads((folder.path / "run.json").read_text())["config"]["learning_rate"] == 0.01


@pytest.mark.parametrize(("key", "value"), [("clients", "5"), ("seed", "1"), ("policy", "full"), ("clip", "1")])
def test_what_a_run_is_made_of_cannot_change(tmp_path, key, value):
    folder = RunFolder(tmp_path / "run")
    folder.create(make_config(SMALL))
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(InvalidInput, match=f"{key}: cannot be changed"):
        folder.change_config({key: value})
    assert (folder.path / "run.json").read_bytes() == before


def test_a_checkpoint_of_another_version_is_one_line(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(make_config(SMALL))
    folder.save_checkpoint({"round": 1, "why": "clustering is off"}, {})
    with pytest.raises(InvalidInput, match="a version before"):
        run_local(folder.read_config(), folder, resume=True)


def test_a_failed_round_names_client_tensor_and_reason_and_can_be_mended(tmp_path, monkeypatch):
    folder, honest = RunFolder(tmp_path / "run"), scoring.train_on

    def diverge(model, data, recipe, **settings):
        trained = honest(model, data, recipe, **settings)
        trained[-1] = np.nan if settings["learning_rate"] > 1 else trained[-1]
        return trained

    monkeypatch.setattr(scoring, "train_on", diverge)
    failure = r"round 0: no client of cluster 0 could train: client 0: .*not finite.*first in 3\.bias.*--resume"
    with pytest.raises(SenseCryptError, match=failure):
        run_local(make_config({**SMALL, "learning_rate": 50}), folder)
    result = run_local(folder.change_config({"learning_rate": "0.05"}), folder, resume=True)
    assert len(result.played) == 8
