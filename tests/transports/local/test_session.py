"""`federate` in a script and in a process: Ctrl-C, workers that die, threads, folders, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc

import pytest
import torch
from torch import nn

from sensecrypt import InvalidInput, SenseCryptError, federate
from sensecrypt.transports.local import progress

SETTINGS = {"profile": "insecure-test", "clustering": "none", "workers": 1}
HERE = os.getpid()
SCRIPT = """
import sys, time, torch
from torch import nn
from sensecrypt import federate
data = [(torch.randn(30, 6), torch.arange(30) % 3) for _ in range(4)]
def fit(model, data, number):
    with torch.no_grad():
        model.weight += 0.1
    if number:
        print("started", flush=True)
        time.sleep(60)
federate(nn.Linear(6, 3), data, fit=fit, rounds=3, out=sys.argv[1], settings={settings})
"""


def clients(many: int = 4):
    draw = torch.Generator().manual_seed(0)
    return [(torch.randn(20, 6, generator=draw), torch.arange(20) % 3) for _ in range(many)]


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_is_two_lines(tmp_path, workers):
    script = SCRIPT.format(settings={**SETTINGS, "workers": workers})
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("started")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    lines = [line for line in told.splitlines() if line]
    assert lines == ["stopped by Ctrl-C", f"continue with out={str(tmp_path / 'run')!r}, resume=True"]


def test_a_process_that_is_killed_is_named_and_others_go_on():
    victim = clients()[2][0]

    def fit(model, data, number):
        if torch.equal(data[0], victim) and os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        with torch.no_grad():
            model.weight += 0.1

    result = federate(nn.Linear(6, 3), clients(), fit=fit, rounds=1, settings={**SETTINGS, "workers": 2})
    [excluded] = result.excluded
    assert (excluded["client"], excluded["round"]) == (2, 0)
    assert "the client's process died (it was killed, perhaps for lack of memory" in excluded["reason"]
    assert len(result.played) == 3


def test_threads_are_as_they_were_even_after_a_failure():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        federate(nn.Linear(6, 3), clients(), rounds=1, settings=SETTINGS)
        assert torch.get_num_threads() == 2
        with pytest.raises(SenseCryptError, match=r"client 0: .*no such thing"):
            federate(nn.Linear(6, 3), clients(), fit=failing, rounds=1, settings=SETTINGS)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def failing(model, data, number):
    raise KeyError("no such thing")


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SenseCryptError, match="file") as error:
        federate(nn.Linear(6, 3), clients(), rounds=1, out=tmp_path / "file" / "run", settings=SETTINGS)
    assert "\n" not in str(error.value)
    result = federate(nn.Linear(6, 3), clients(), rounds=1, out=tmp_path / "Läufe ∂" / "run", settings=SETTINGS)
    with pytest.raises(InvalidInput, match=r"path: .* cannot be written"):
        result.save(tmp_path / "file" / "model.safetensors")


def test_memory_is_flat_in_the_number_of_clients():
    """What is alive at the most: data of ten times as many clients would be 80 MB more."""

    def load(client):
        return torch.full((50, 400), float(client)), torch.arange(50) % 3

    def peak(many: int) -> float:
        tracemalloc.start()
        alive: list[int] = []

        def counted(client):
            alive.append(client)
            return load(client)

        weights = [50] * many
        federate(nn.Linear(400, 3), range(many), load=counted, weights=weights, sample=5, rounds=2, settings=SETTINGS)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(set(alive)) < 20
        return most / 1e6

    assert peak(1000) - peak(100) < 8


def test_progress_is_one_line_that_is_rewritten(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_is_seen", lambda: True)
    federate(nn.Linear(6, 3), clients(), test=clients()[0], rounds=2, settings=SETTINGS)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "round 2 of 2   loss" in told
    assert "training: 4 of 4 clients" in told
    federate(nn.Linear(6, 3), clients(), rounds=1, progress=False, settings=SETTINGS)
    assert capsys.readouterr().err == ""
