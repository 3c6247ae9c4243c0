"""Clients' processes: forked while no thread is alive, results as they arrive, whoever dies is told."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sensecrypt.errors import InvalidInput, WorkerDied
from sensecrypt.transports.local.workers import Workers


def tell(world, number):
    return world, number, os.getpid()


def die(world, number):
    if number == 3 and os.getpid() != world:
        os._exit(1)
    return number


def refuse(world, number):
    raise InvalidInput("number", f"is {number}", "pass another")


def slow(world, number):
    time.sleep(0.2 if number == 0 else 0.0)
    return number


@pytest.fixture
def workers():
    with Workers(os.getpid(), 2) as made:
        yield made


def test_results_are_in_order_and_from_two_processes(workers):
    results = workers.map(tell, [(number,) for number in range(40)])
    assert [(world, number) for world, number, _ in results] == [(os.getpid(), number) for number in range(40)]
    pids = {pid for _, _, pid in results}
    assert os.getpid() not in pids
    assert len(pids) == 2
    assert {pid for _, _, pid in workers.map(tell, [(0,), (1,)])} <= pids  # they stay


def test_results_come_as_they_are_done(workers):
    assert list(workers.as_done(slow, [(number,) for number in range(5)], died=str))[-1] == 0


def test_no_thread_is_alive_while_workers_are(workers):
    """So that others may fork, too: the key server's decryption does."""
    for _ in workers.as_done(slow, [(number,) for number in range(5)], died=str):
        assert threading.active_count() == 1


def test_whoever_dies_is_told_and_nobody_else(workers):
    assert sorted(workers.as_done(die, [(number,) for number in range(9)], died=lambda number: -number)) == [
        *(-3, 0, 1, 2),
        *(4, 5, 6, 7, 8),
    ]
    assert len(workers.map(tell, [(0,), (1,)])) == 2
    with pytest.raises(WorkerDied, match="died while setting up"):
        workers.map(die, [(number,) for number in range(9)])


def test_errors_arrive_whole_and_leave_nothing_behind(workers):
    with pytest.raises(InvalidInput, match="number: is 7"):
        workers.map(refuse, [(7,)])
    half = workers.as_done(slow, [(number,) for number in range(5)], died=str)
    next(half)
    half.close()  # whoever asked has given up
    assert [number for _, number, _ in workers.map(tell, [(1,), (2,), (3,)])] == [1, 2, 3]


def test_beside_a_thread_clients_are_played_in_this_process(workers, caplog):
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        results = workers.map(tell, [(0,), (1,)])
        assert list(workers.as_done(slow, [(0,), (1,)], died=str)) == [0, 1]
    finally:
        done.set()
        thread.join()
    assert {pid for _, _, pid in results} == {os.getpid()}
    assert "threads are alive in this process" in caplog.text


def test_workers_end_with_the_process_that_started_them(workers):
    [(_, _, first), (_, _, second)] = workers.map(tell, [(0,), (1,)])
    workers.__exit__()
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


KILLED = """
import os, signal
from sensecrypt.transports.local.workers import Workers
from tests.engines.test_workers import tell

print(*{pid for _, _, pid in Workers(None, 3).map(tell, [(number,) for number in range(9)])}, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_even_if_that_process_is_killed():
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    left = {int(pid) for pid in done.stdout.split()}
    assert left
    for _ in range(200):
        left = {pid for pid in left if Path(f"/proc/{pid}").exists()}
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"{left} are still there")
