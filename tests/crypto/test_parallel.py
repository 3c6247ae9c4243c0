from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pytest

from sensecrypt import InvalidInput
from sensecrypt.crypto.parallel import spread
from sensecrypt.errors import WorkerDied


def rows(start: int, stop: int) -> np.ndarray:
    return np.arange(start, stop, dtype=np.uint8).reshape(-1, 1)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_rows_come_back_in_order(workers, count):
    assert np.array_equal(spread(rows, count, workers=workers, seconds_per_row=1.0), rows(0, count))


def test_small_jobs_stay_in_this_process():
    pids = spread(
        lambda start, stop: np.array([[os.getpid() % 256]] * (stop - start), dtype=np.uint8),
        100,
        workers=4,
        seconds_per_row=1e-6,
    )
    assert set(pids.ravel().tolist()) == {os.getpid() % 256}


def test_work_is_prepared_before_it_is_shared():
    state: dict[str, int] = {}
    result = spread(
        lambda start, stop: np.full((stop - start, 1), state["ready"], dtype=np.uint8),
        10,
        workers=3,
        seconds_per_row=1.0,
        prepare=lambda: state.update(ready=7),
    )
    assert (result == 7).all()


def test_a_worker_that_dies_is_an_error_not_a_hang():
    here = os.getpid()

    def die_elsewhere(start: int, stop: int) -> np.ndarray:
        if start and os.getpid() != here:
            os._exit(1)
        return rows(start, stop)

    with pytest.raises(WorkerDied, match="fewer workers"):
        spread(die_elsewhere, 10, workers=2, seconds_per_row=1.0)


def test_nothing_is_forked_beside_a_thread():
    """A lock that it holds would stay locked in the child."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        pids = spread(lambda start, stop: np.full((stop - start, 8), 0) + os.getpid(), 10, workers=2, seconds_per_row=1)
    finally:
        done.set()
        thread.join()
    assert set(pids.ravel().tolist()) == {os.getpid()}


def test_a_daemonic_process_works_alone():
    reader, writer = multiprocessing.Pipe(duplex=False)

    def inside() -> None:
        writer.send_bytes(spread(rows, 10, workers=2, seconds_per_row=1.0).tobytes())

    process = multiprocessing.get_context("fork").Process(target=inside, daemon=True)
    process.start()
    process.join(30)
    assert reader.poll(1)
    assert reader.recv_bytes() == bytes(range(10))


@pytest.mark.parametrize("workers", [0, -1, 1.5, 10_000])
def test_impossible_numbers_of_workers(workers):
    with pytest.raises(InvalidInput):
        spread(rows, 10, workers=workers, seconds_per_row=1.0)
