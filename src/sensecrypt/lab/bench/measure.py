"""How long calls take and how much memory they need."""

from __future__ import annotations

import gc
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Times:
    """Seconds of calls by name, of which medians are compared.

    Methods should take turns, so that a slow period of the machine affects all. A call is timed without garbage
    collection.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start without measurements; `clock` returns seconds, of the wall or of the process."""
        self._clock = clock
        self._seconds: dict[str, list[float]] = {}

    def of(self, name: str, call: Callable[[], _Result]) -> _Result:
        """Call and time it."""
        collects = gc.isenabled()
        gc.disable()
        try:
            start = self._clock()
            result = call()
            self._seconds.setdefault(name, []).append(self._clock() - start)
        finally:
            if collects:
                gc.enable()
        return result

    @property
    def medians(self) -> dict[str, float]:
        """The median seconds of each name."""
        return {name: median(each) for name, each in self._seconds.items()}


@dataclass(frozen=True)
class Cost:
    """The cost of one call in a process of its own."""

    seconds: float  # of the call alone
    peak_mb: float  # the largest resident memory of the process, with interpreter and libraries
    result: Any  # what the call returned


def median_seconds(call: Callable[[], object], *, repeats: int) -> float:
    """Median wall time of `repeats` calls, after one call that is not timed."""
    call()
    times = Times()
    for _ in range(repeats):
        times.of("call", call)
    return times.medians["call"]


def in_own_process(call: Callable[..., tuple[float, Any]], *arguments: object) -> Cost:
    """Run `call`, which times its own core and returns (seconds, result), in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (call, arguments))


def _measured(call: Callable[..., tuple[float, Any]], arguments: tuple[object, ...]) -> Cost:
    seconds, result = call(*arguments)
    return Cost(seconds, peak_mb(), result)


def peak_mb(process: int | str = "self") -> float:
    """The largest resident memory that a process has had; 0 if the system does not report that of another process.

    Linux counts a parent's memory into `ru_maxrss` of the child it started; `VmHWM` is the process's own.
    """
    status = Path(f"/proc/{process}/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if process == "self" else 0.0
