"""Clients' processes: forked while no thread is alive, answers as they arrive, whoever dies is reported."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.transports.local.transport import Lost, Workers

HERE = os.getpid()


class Services:
    """A key service per client that counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []

    def __call__(self, client):
        return Service(self, client)


class Service:
    def __init__(self, services, client):
        self._services, self._client = services, client

    def double(self, number):
        self._services.asked.append((os.getpid(), self._client, number))
        if number == 7:
            raise Rejected("not this one", code="seven")
        return 2 * number


def handle(call, service):
    """What a client answers: each kind of message is a way to behave."""
    client, kind, parts = call
    if kind == "die" and client == 3 and os.getpid() != HERE:
        os._exit(1)
    if kind == "die once" and client == 3 and not Path(parts["mark"].decode()).exists():
        Path(parts["mark"].decode()).touch()
        os._exit(1)
    if kind == "refuse":
        raise InvalidInput("client", f"is {client}", "pass another")
    if kind == "slow":
        time.sleep(0.2 if client == 0 else 0.0)
    if kind == "ask":
        return [service.double(client), service.double(10 * client)]
    return os.getpid()


def calls(kind, count, **parts):
    return [(client, kind, parts) for client in range(count)]


@pytest.fixture
def services():
    return Services()


@pytest.fixture
def workers(services):
    with Workers(handle, services, 2) as made:
        yield made


def answers(workers, kind, count, **parts):
    """Each client's answer, by client; every one is answered once."""
    found = [(client, answer) for (client, _, _), answer in workers.answers(calls(kind, count, **parts))]
    assert sorted(client for client, _ in found) == list(range(count))
    return dict(found)


def test_answers_are_from_two_processes_that_stay(workers):
    pids = set(answers(workers, "tell", 40).values())
    assert os.getpid() not in pids
    assert len(pids) == 2
    assert set(answers(workers, "tell", 2).values()) <= pids  # they stay


def test_answers_come_as_they_are_done(workers):
    assert [client for (client, _, _), _ in workers.answers(calls("slow", 5))][-1] == 0


def test_no_thread_is_alive_while_workers_are(workers):
    """So that others may fork, too: the key server's decryption does."""
    for _ in workers.answers(calls("slow", 5)):
        assert threading.active_count() == 1


def test_whoever_dies_is_lost_and_nobody_else(workers):
    found = answers(workers, "die", 9)
    assert {client: answer for client, answer in found.items() if isinstance(answer, Lost)} == {
        3: Lost(" (exit code 1)")
    }
    assert not any(isinstance(answer, Lost) for answer in answers(workers, "tell", 2).values())


def test_whoever_dies_is_asked_once_more(workers, tmp_path):
    found = answers(workers, "die once", 9, mark=str(tmp_path / "died").encode())
    assert (tmp_path / "died").exists()
    assert not any(isinstance(answer, Lost) for answer in found.values())


def test_errors_arrive_whole_and_leave_nothing_behind(workers):
    with pytest.raises(InvalidInput, match="client: is 0"):
        answers(workers, "refuse", 1)
    half = workers.answers(calls("slow", 5))
    next(half)
    half.close()  # whoever asked has given up
    assert os.getpid() not in answers(workers, "tell", 3).values()


@pytest.mark.parametrize("count", [1, 2])
def test_questions_to_the_key_service_are_answered_in_this_process(services, count):
    with Workers(handle, services, count) as workers:
        assert answers(workers, "ask", 6) == {client: [2 * client, 20 * client] for client in range(6)}
        assert {pid for pid, _, _ in services.asked} == {os.getpid()}
        assert sorted(services.asked)[:2] == [(HERE, 0, 0), (HERE, 0, 0)]
        assert {(client, number) for _, client, number in services.asked} == {
            (client, number) for client in range(6) for number in (client, 10 * client)
        }


def test_a_question_that_is_refused_raises_where_it_was_asked(workers):
    with pytest.raises(Rejected, match="not this one") as error:
        list(workers.answers([(7, "ask", {})]))
    assert error.value.code == "seven"
    assert answers(workers, "ask", 2) == {0: [0, 0], 1: [2, 20]}


def test_beside_a_thread_clients_are_played_in_this_process(workers, caplog):
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        pids = answers(workers, "tell", 2)
        assert [client for (client, _, _), _ in workers.answers(calls("slow", 2))] == [0, 1]
    finally:
        done.set()
        thread.join()
    assert set(pids.values()) == {os.getpid()}
    assert "other threads are alive" in caplog.text


def test_workers_end_with_the_process_that_started_them(workers):
    pids = set(answers(workers, "slow", 5).values())
    workers.__exit__()
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


KILLED = """
import os, signal
from sensecrypt.transports.local.transport import Workers
from tests.transports.local.test_workers import Services, calls, handle

print(*{pid for _, pid in Workers(handle, Services(), 3).answers(calls("tell", 9))}, flush=True)
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
