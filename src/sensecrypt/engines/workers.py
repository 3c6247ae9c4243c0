"""Processes that play the clients: forked, so that keys, tables and data are inherited and never sent.

A process is forked only while no other thread is alive: a lock that a thread holds would stay locked in the child. So
there is no thread here either, as executors have them; this process waits for the pipes of its workers itself. Where
somebody else's threads are alive, clients are played in this process, one after another, with the same results.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from sensecrypt.crypto.parallel import may_fork
from sensecrypt.engines.work import World
from sensecrypt.errors import WorkerDied

_LOST = object()
_LOG = logging.getLogger("sensecrypt.workers")


class Workers:
    """Calls functions of (world, *arguments) in `count` processes; with one, in this process."""

    def __init__(self, world: World, count: int) -> None:
        """Processes are started when they are first needed."""
        self._world, self._count = world, count
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        while self._workers:
            self._workers.pop().end()

    def map(self, work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """All results, in order."""
        if self._alone():
            return [work(self._world, *arguments) for arguments in calls]
        results = dict(self._run(work, calls))
        if any(result is _LOST for result in results.values()):
            raise WorkerDied("a client's process died while setting up; try again, with fewer workers")
        return [results[index] for index in range(len(calls))]

    def as_done(
        self, work: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, died: Callable[[Any], Any]
    ) -> Iterator[Any]:
        """Results as they arrive; of a client whose process dies twice, what `died` makes of its first argument."""
        if self._alone():
            yield from (work(self._world, *arguments) for arguments in calls)
            return
        lost = []
        for index, result in self._run(work, calls):
            if result is _LOST:
                lost.append(calls[index])
            else:
                yield result
        for arguments in lost:  # one at a time: some die for lack of memory
            [(_, result)] = self._run(work, [arguments])
            yield died(arguments[0]) if result is _LOST else result

    def _alone(self) -> bool:
        if self._count == 1 or self._workers:
            return self._count == 1
        if not may_fork():
            _LOG.warning("threads are alive in this process: clients are played in it, not in %d others", self._count)
            return True
        return False

    def _run(self, work: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Every call's number and result, as they arrive; `_LOST` if its process died."""
        waiting, busy = deque(enumerate(calls)), dict[Connection, tuple[_Worker, int]]()
        try:
            while waiting or busy:
                while waiting and (worker := self._idle(busy)) is not None:
                    index, arguments = waiting.popleft()
                    busy[worker.connection] = (worker, index)
                    worker.send(work, arguments)
                ready = wait(list(busy))
                for connection in [each for each in busy if each in ready]:
                    worker, index = busy.pop(connection)
                    result = worker.receive()
                    if result is _LOST:
                        self._workers.remove(worker)
                        worker.end()
                    yield index, result
        finally:
            for worker, _ in busy.values():  # nobody wants their results any more
                self._workers.remove(worker)
                worker.end()

    def _idle(self, busy: dict[Connection, tuple[_Worker, int]]) -> _Worker | None:
        """A worker without a call, if need be a new one; None: all are busy, and no more can be started."""
        for worker in self._workers:
            if worker.connection not in busy:
                return worker
        if len(self._workers) < self._count and may_fork():
            self._workers.append(_Worker(self._world, [worker.connection for worker in self._workers]))
            return self._workers[-1]
        if not busy:
            raise WorkerDied("a client's process died, and none can be started while threads are alive")
        return None


class _Worker:
    """One process, with one call at a time."""

    def __init__(self, world: World, others: Sequence[Connection]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(world, theirs, [self.connection, *others]))
        self._process.start()
        theirs.close()

    def send(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            self.connection.send((work, arguments))
        except OSError:  # it died: whoever waits for its answer is told
            return

    def receive(self) -> Any:
        try:
            raised, result = self.connection.recv()
        except (EOFError, OSError):
            return _LOST
        if raised:
            raise result
        return result

    def end(self) -> None:
        self.connection.close()
        self._process.terminate()
        self._process.join()
        self._process.close()


def _serve(world: World, connection: Connection, others: Sequence[Connection]) -> None:
    """The worker's process: ends with the one that started it."""
    for other in others:  # inherited: as long as they are open here, nobody sees that the other end is gone
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the process that started this one, which ends it
    torch.set_num_threads(1)
    while True:
        try:
            work, arguments = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (False, work(world, *arguments))
        except Exception as error:
            answer = (True, error)
        connection.send(answer)
