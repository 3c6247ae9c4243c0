"""Measures the cost of work: ciphertexts and processor time, which does not include waiting for other processes."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal


def work_seconds() -> float:
    """Return the processor time of this thread and of all child processes that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime


Operation = Literal["encrypt", "add", "decrypt", "multiply", "add_plain"]


@dataclass
class Cost:
    """The cost of cryptography.

    Attributes:
        seconds: seconds on one core, per operation.
        blocks: number of ciphertexts, per operation.
        ahead_seconds: seconds spent on randomizers that were computed before the round.
    """

    seconds: dict[Operation, float] = field(default_factory=dict)
    blocks: dict[Operation, int] = field(default_factory=dict)
    ahead_seconds: float = 0.0

    @property
    def total_seconds(self) -> float:
        """The seconds of all operations, including randomizers."""
        return sum(self.seconds.values()) + self.ahead_seconds

    @contextmanager
    def of(self, operation: Operation, blocks: int) -> Iterator[None]:
        """Count the time inside the context as `operation` on `blocks` ciphertexts."""
        start = work_seconds()
        yield
        self.seconds[operation] = self.seconds.get(operation, 0.0) + work_seconds() - start
        self.blocks[operation] = self.blocks.get(operation, 0) + blocks
