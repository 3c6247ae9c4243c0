from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from tests.cli.test_app import sensecrypt

SMALL = ["--set=clients=4", "--set=partition=iid", "--set=rounds=2", "--set=profile=insecure-test", "--set=workers=1"]


def test_a_run_prints_one_object_and_resumes(tmp_path):
    out = str(tmp_path / "run")
    summary = json.loads(sensecrypt("run", "--out", out, "--json", *SMALL))
    assert {
        "model_sha256",
        "clusters",
        "accuracy",
        "encrypted_share",
        "coverage",
        "rounds",
        "wall_seconds",
    } <= summary.keys()
    assert {"bytes_up", "bytes_down"} <= summary.keys()
    assert summary["rounds"] == 2
    again = json.loads(sensecrypt("run", "--out", out, "--resume", "--json"))
    assert again["model_sha256"] == summary["model_sha256"]


def test_a_run_ends_in_a_table(tmp_path):
    output = sensecrypt("run", "--out", str(tmp_path / "run"), *SMALL)
    lines = output.splitlines()
    assert lines[0] == "digits, policy sensecrypt: round 2 of 2"
    assert lines[2].split() == ["client", "device", "cluster", "accuracy", "encrypted", "covered", "time", "kB", "up"]
    assert "raspberry-pi" in output
    assert "1 cluster, all clients train one model: " in output
    assert "Accuracy after the last round: " in output
    for words in ("mean of all rounds", "device time", "server of 4 CPUs", "time here"):
        assert words in " ".join(output.split())
    assert all(len(line) <= 80 for line in lines if str(tmp_path) not in line)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "rounds"],
        ["--set", "round=3"],
        ["--set", "dataset=imagenet"],
        ["--set", "policy=magic"],
        ["--set", "clients=100000", "--set", "partition=iid"],
        ["--set", "partition=by-moon"],
        ["none.toml"],
        ["--resume"],
        ["--preset", "fast"],
        ["--set", "max_mi=nan"],
        ["--set", "rounds=inf"],
        ["--set", "cpus=inf"],
        ["--set", "grace=nan"],
        ["--set", "beta=1,nan"],
        ["--set", "sensitivity_epsilon=nan"],
        ["--set", "bandwidth=measured", "--set", "clustering=none", "--set", "layout=blocks"],
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line_exit_2_and_nothing_half_written(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--set", "grace=nan"],
        ["compare", "--policies", "sensecrypt+max_mi=nan,full"],
        ["attack", "--share", "nan"],
        ["attack", "--share", "0.1,inf"],
        ["reproduce", "noisy-clustering", "--set", "rate=nan"],
        ["reproduce", "noisy-clustering", "--set", "epsilons=[inf]"],
        ["advise", "--set", "cpus=inf"],
    ],
    ids=" ".join,
)
def test_other_commands_refuse_what_is_not_finite(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("clients=2", "partition: is 'categories:4': the number of categories is 4, but there are 2 clients"),
        ("partition=foo", "partition: is 'foo'; pass for example 'iid'"),
        ("dataset=mnits", "dataset: there is no data set 'mnits'; did you mean 'mnist'?"),
        ("model=lenet", "model: there is no model 'lenet'; did you mean 'lenet5'?"),
    ],
)
def test_mistakes_are_told_by_the_names_of_settings(tmp_path, monkeypatch, change, told):
    monkeypatch.chdir(tmp_path)
    assert f"Error: {told}" in CliRunner().invoke(main, ["run", "--set", change]).output


def test_a_missing_data_file_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENSECRYPT_DATA", str(tmp_path))
    result = CliRunner().invoke(main, ["run", "--set", "dataset=mnist"])
    assert result.exit_code == 2
    assert "SENSECRYPT_DATA" in result.output


def test_an_interrupted_run_says_how_to_continue(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "sensecrypt", "run", "--out", str(out), *SMALL, "--set=rounds=500"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (out / "records.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"continue with: sensecrypt run --out {out} --resume" in told
    assert "Traceback" not in told


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "ca.key").write_text("precious")
    result = CliRunner().invoke(main, ["run", "--out", str(tmp_path), *SMALL])
    assert (result.exit_code, "holds other things" in result.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["ca.key"]


def test_a_profile_without_security_says_so(tmp_path):
    result = CliRunner().invoke(main, ["run", "--out", str(tmp_path / "run"), "--no-report", *SMALL])
    assert "this encryption gives no security" in result.stderr
    assert "encrypted" in result.stdout


def test_the_same_run_is_the_same_files(tmp_path):
    """Also the headers: whoever compares hashes of files is told the truth."""
    for name in ("one", "other"):
        sensecrypt("run", "--out", str(tmp_path / name), "--no-report", *SMALL)
    models = [(tmp_path / name / "model-0.safetensors").read_bytes() for name in ("one", "other")]
    assert models[0] == models[1]


def test_setting_up_is_shown(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "sensecrypt.cli.run.Progress.update", lambda _self, _task, **told: shown.append(told.get("description"))
    )
    settings = [f"--set={each}" for each in ("clients=4", "partition=iid", "rounds=1", "workers=1")]
    result = CliRunner().invoke(main, ["run", *settings, "--no-report", "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    steps = [f"{kind}, {done} of 4 clients," for kind in ("enrolling", "importance order") for done in (1, 2, 3, 4)]
    assert shown == [*steps, ""]
