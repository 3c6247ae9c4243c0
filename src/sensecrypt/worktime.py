"""What work costs: processor time, which does not grow while other processes hold the machine up, and ciphertexts."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal


def work_seconds() -> float:
    """Processor time of this thread and of the processes that were started and waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime


Operation = Literal["encrypt", "add", "decrypt", "multiply", "add_plain"]


@dataclass
class Cost:
    """What was spent on cryptography.

    Attributes:
        seconds: of work on one core, per operation.
        blocks: ciphertexts, per operation.
        ahead_seconds: of work on randomness that was made before it was needed.
    """

    seconds: dict[Operation, float] = field(default_factory=dict)
    blocks: dict[Operation, int] = field(default_factory=dict)
    ahead_seconds: float = 0.0

    @property
    def total_seconds(self) -> float:
        """Of all operations, randomness included."""
        return sum(self.seconds.values()) + self.ahead_seconds

    @contextmanager
    def of(self, operation: Operation, blocks: int) -> Iterator[None]:
        """Count what happens inside as that operation on so many ciphertexts."""
        start = work_seconds()
        yield
        self.seconds[operation] = self.seconds.get(operation, 0.0) + work_seconds() - start
        self.blocks[operation] = self.blocks.get(operation, 0) + blocks
