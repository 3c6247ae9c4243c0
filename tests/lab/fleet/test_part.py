"""Parts, played by small Python programs instead of services."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from sensecrypt.errors import SenseCryptError
from sensecrypt.lab.fleet.commands import TAG
from sensecrypt.lab.fleet.fleet import Fleet
from sensecrypt.lab.fleet.part import Part
from sensecrypt.lab.fleet.processes import tagged
from sensecrypt.lab.fleet.supervisor import MOST_RESTARTS

HELPER = "import time; time.sleep(600)"
SERVICE = f"""
import signal, subprocess, sys, time
stubborn = "stubborn" in sys.argv
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
helper = subprocess.Popen([sys.executable, "-c", {HELPER!r}], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""
pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="helpers are found in /proc")


@pytest.fixture
def make(tmp_path, request):
    parts = []

    def make(code: str, *arguments: str) -> Part:
        environment = {**os.environ, TAG: str(tmp_path)}
        command = [sys.executable, "-c", code, *arguments]
        is_ready = lambda part: part.has_said("ready")  # noqa: E731
        parts.append(Part("node-0", command, environment, tmp_path / "log", is_ready=is_ready))
        return parts[-1]

    yield make
    for part in parts:
        part.kill()


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_part_goes_with_all_that_it_started_and_comes_back(make, tmp_path, how):
    part = make(SERVICE)
    assert part.pid is None
    for _ in range(2):
        part.start().wait_ready(20)
        assert part.alive
        assert part.start().pid == part.pid
        assert len(tagged(str(tmp_path))) == 2
        getattr(part, how)()
        assert not part.alive
        assert not part.wanted
        assert tagged(str(tmp_path)) == []
    assert part.log.read_text().count("ready") == 2


def test_a_part_that_does_not_listen_is_killed(make, tmp_path):
    part = make(SERVICE, "stubborn").start().wait_ready(20)
    begun = time.monotonic()
    part.end(seconds=0.2)
    assert time.monotonic() - begun < 10
    assert part.exit_code == -9
    assert tagged(str(tmp_path)) == []


def test_what_a_killed_part_left_behind_is_gone_before_it_starts_again(make, tmp_path):
    part = make(SERVICE).start().wait_ready(20)
    [helper] = set(tagged(str(tmp_path))) - {part.pid}
    os.kill(part.pid, 9)
    while part.alive:
        time.sleep(0.01)
    assert tagged(str(tmp_path)) == [helper]
    part.start().wait_ready(20)
    assert helper not in tagged(str(tmp_path))


def test_last_words_are_told_and_old_ones_are_not(make):
    part = make("print('ready then'); raise SystemExit('port 7 is in use')").start()
    while part.alive:
        time.sleep(0.01)
    part = make("import sys; sys.exit('port 8 is in use')").start()
    with pytest.raises(SenseCryptError, match=r"node-0 ended as it started \(port 8 is in use\); read .*log"):
        part.wait_ready(20)


def test_a_part_that_never_gets_ready(make):
    part = make("import time; time.sleep(600)").start()
    with pytest.raises(SenseCryptError, match="is not ready after 0 s"):
        part.wait_ready(0.1)


def test_dead_parts_are_started_again_so_often_and_no_more(make, own, monkeypatch):
    monkeypatch.setattr("sensecrypt.lab.fleet.fleet._LOOK_SECONDS", 0.01)
    said: list[str] = []
    fleet = Fleet(own.path, say=said.append)
    part = make("raise SystemExit(3)").start()
    fleet._parts = {"node-0": part}
    stop, wait = threading.Event(), threading.Event.wait
    monkeypatch.setattr("sensecrypt.lab.fleet.supervisor._PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(stop, "wait", lambda seconds: not part.wanted or wait(stop, seconds))
    fleet.tend(stop)
    assert len(said) == MOST_RESTARTS + 1
    assert "node-0 died (exit code 3); its log is" in said[0]
    assert "starting it again (1 of 5)" in said[0]
    assert "it is not started again after 5 restarts" in said[-1]
    assert own.read().pids.keys() <= {"node-0"}


def test_parts_ended_on_purpose_stay_ended(make, own):
    said: list[str] = []
    fleet = Fleet(own.path, say=said.append)
    fleet._parts = {"node-0": make(SERVICE).start().wait_ready(20)}
    fleet.part("node-0").kill()
    stop = threading.Event()
    threading.Timer(1.2, stop.set).start()
    fleet.tend(stop)
    assert said == []
