"""Distributes work on rows over processes, if there is enough of it.

Processes are forked: they inherit tables and keys, nothing is pickled, and they return only the result's bytes. Each
child draws its randomness from the operating system, so no randomness is used twice.
"""

from __future__ import annotations

import itertools
import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess

import numpy as np

from sensecrypt import checks
from sensecrypt.crypto.scheme import Ciphertexts
from sensecrypt.errors import WorkerDied

WORTHWHILE_SECONDS = 0.1  # forking and collecting costs a few hundredths of a second
Work = Callable[[int, int], Ciphertexts]


def spread(
    work: Work, rows: int, *, workers: int, seconds_per_row: float, prepare: Callable[[], object] = lambda: None
) -> Ciphertexts:
    """Return the concatenated results of `work(start, stop)` over all rows, computed by up to `workers` processes.

    Args:
        work: returns rows start … stop − 1; its input is already checked.
        rows: number of rows.
        workers: the largest number of processes, at least 1.
        seconds_per_row: an estimate; small jobs stay in this process.
        prepare: called once before forking, so that all workers inherit what it builds.
    """
    checks.whole("workers", workers, low=1, high=1024)
    parts = min(workers, rows, int(rows * seconds_per_row / WORTHWHILE_SECONDS) + 1)
    if parts == 1 or not may_fork():
        return work(0, rows)
    prepare()
    bounds = [rows * part // parts for part in range(parts + 1)]
    context = multiprocessing.get_context("fork")
    children: list[tuple[ForkProcess, Connection]] = []
    try:
        for start, stop in itertools.pairwise(bounds[1:]):
            receiver, sender = context.Pipe(duplex=False)
            child = context.Process(target=_child, args=(work, start, stop, sender), daemon=True)
            children.append((child, receiver))
            child.start()
            sender.close()
        own = work(0, bounds[1])
        others = [np.frombuffer(bytearray(_receive(receiver)), dtype=np.uint8) for _, receiver in children]
    finally:
        for child, receiver in children:
            receiver.close()
            if child.pid is not None:
                child.terminate()
                child.join()
    return np.concatenate([own, *(part.reshape(-1, own.shape[1]) for part in others)])


def may_fork() -> bool:
    """Return whether this process may fork: the system supports it, it is not daemonic, and it has no other threads.

    A lock that another thread holds during the fork, such as a log's, would stay locked in the child forever.
    """
    able = "fork" in multiprocessing.get_all_start_methods() and not multiprocessing.current_process().daemon
    return able and threading.active_count() == 1


def _child(work: Work, start: int, stop: int, sender: Connection) -> None:
    sender.send_bytes(work(start, stop).tobytes())
    sender.close()


def _receive(receiver: Connection) -> bytes:
    try:
        return receiver.recv_bytes()
    except (EOFError, OSError):
        raise WorkerDied("a worker process ended without a result; try fewer workers") from None
