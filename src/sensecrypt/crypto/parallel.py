"""Work on rows spread over processes, when that pays.

Processes are forked: tables and keys are inherited, never pickled, and only the result's bytes travel back. A child
draws its randomness from the operating system, so nothing is drawn twice.
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

WORTHWHILE_SECONDS = 0.1  # forking and collecting costs a few hundredths
Work = Callable[[int, int], Ciphertexts]


def spread(
    work: Work, rows: int, *, workers: int, seconds_per_row: float, prepare: Callable[[], object] = lambda: None
) -> Ciphertexts:
    """`work(start, stop)` over all rows, in up to `workers` processes; its results one below the other.

    Args:
        work: returns rows start … stop − 1, and has checked its input before.
        rows: how many there are.
        workers: processes, at least 1.
        seconds_per_row: an estimate; small jobs stay in this process.
        prepare: run once before forking: what it builds, every worker has.
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
    """Not on systems without it, not in a daemonic process, which may have no children, and not beside other threads.

    What a thread holds at that moment, such as the lock of a log, stays locked in the child for ever.
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
