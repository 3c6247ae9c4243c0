"""Processes that play the clients: forked, so that keys, tables and data are inherited and never sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import torch

from sensecrypt.engines.work import World
from sensecrypt.errors import WorkerDied

_WORLD: list[World] = []  # in a worker process: what it inherited when it was forked


class Workers:
    """Calls functions of (world, *arguments) in `count` processes; with one, in this process."""

    def __init__(self, world: World, count: int) -> None:
        """Processes are started when they are first needed."""
        self._world, self._count = world, count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """All results, in order."""
        if self._count == 1:
            return [work(self._world, *arguments) for arguments in calls]
        try:
            return [future.result() for future in [self._submit(work, arguments) for arguments in calls]]
        except BrokenProcessPool:
            raise WorkerDied("a client's process died while setting up; try again, with fewer workers") from None

    def as_done(
        self, work: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, died: Callable[[Any], Any]
    ) -> Iterator[Any]:
        """Results as they arrive; of a client whose process dies, what `died` makes of the call's first argument."""
        if self._count == 1:
            yield from (work(self._world, *arguments) for arguments in calls)
            return
        futures = {self._submit(work, arguments): arguments for arguments in calls}
        lost = []
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                lost.append(futures[future])
        for arguments in lost:  # one at a time, so that the one that dies takes nobody with it
            self._pool = None
            try:
                yield self._submit(work, arguments).result()
            except BrokenProcessPool:
                self._pool = None
                yield died(arguments[0])

    def _submit(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._count, get_context("fork"), _enter, (self._world,))
        return self._pool.submit(_call, work, arguments)


def _enter(world: World) -> None:
    torch.set_num_threads(1)
    _WORLD.append(world)


def _call(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return work(_WORLD[0], *arguments)
