"""How long a call takes and how much memory it needs."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What one call took in a process of its own.

    Attributes:
        seconds: of the call alone.
        peak_mb: the largest resident memory of the whole process, the interpreter and its libraries included.
        result: what the call returned.
    """

    seconds: float
    peak_mb: float
    result: Any


def median_seconds(call: Callable[[], object], *, repeats: int) -> float:
    """Median wall time of `repeats` calls, after one that does not count."""
    call()
    return median(_seconds(call) for _ in range(repeats))


def in_own_process(call: Callable[..., tuple[float, Any]], *arguments: object) -> Cost:
    """Run `call`, which times its own core and returns (seconds, result), in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (call, arguments))


def _measured(call: Callable[..., tuple[float, Any]], arguments: tuple[object, ...]) -> Cost:
    seconds, result = call(*arguments)
    return Cost(seconds, peak_mb(), result)


def peak_mb() -> float:
    """The largest resident memory that this process has had.

    Linux counts a parent's memory into `ru_maxrss` of the child it started; `VmHWM` is the process's own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
