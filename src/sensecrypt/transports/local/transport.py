"""The transport to clients on this machine, which are always reachable: worker processes, or the main process.

A process is forked only while no other thread is alive, because a lock that a thread holds would stay locked in the
child. So this module starts no threads, unlike executors: the main process itself waits for the pipes of its workers.
If other threads are alive, clients run in the main process, one after another, with the same results.

A client calls the key service while it works. Its worker forwards the call to the main process, and waits.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from sensecrypt.client.client import Client
from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.config import RunConfig
from sensecrypt.coordinator.budgets import measures_bandwidth
from sensecrypt.coordinator.ports import Reply
from sensecrypt.crypto.parallel import may_fork
from sensecrypt.errors import SenseCryptError, WorkerDied
from sensecrypt.keyservice.port import ClientKeyService
from sensecrypt.protocol.requests import FAILURE, Assignment, Parts, facts_from_bytes
from sensecrypt.records import Refusal
from sensecrypt.simulation.clock import CostModel, answer_bandwidth

Call = tuple[int, str, dict[str, bytes]]  # client, kind of message, its parts
Services = Callable[[int], Any]  # the key service as one client sees it
Handle = Callable[[Call, Any], Any]  # returns a client's answer to a call, with its key service


@dataclass(frozen=True)
class Lost:
    """Replaces the answer of a client whose process died.

    Attributes:
        how: how it died, if known.
    """

    how: str = ""


_DYING = 5.0  # seconds to wait for a process to end after its pipe has closed
_LOG = logging.getLogger("sensecrypt.workers")


class Workers:
    """Runs clients in `count` processes; with one, in the main process."""

    def __init__(self, handle: Handle, services: Services, count: int) -> None:
        """Store the settings; processes are started when they are first needed."""
        self._handle, self._services, self._count = handle, services, count
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        while self._workers:
            self._workers.pop().end()

    def answers(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Any]]:
        """Yield each call and the client's answer, as they arrive; `Lost` for a client whose process died twice."""
        alone = self._count == 1
        if not alone and not self._workers and not may_fork():
            _LOG.warning("other threads are alive, so clients run in this process, not in %d workers", self._count)
            alone = True
        if alone:
            yield from ((call, self._handle(call, self._services(call[0]))) for call in calls)
            return
        lost = []
        for call, result in self._run(calls):
            if isinstance(result, Lost):
                lost.append(call)
            else:
                yield call, result
        for call in lost:  # one at a time, because some die for lack of memory
            yield from self._run([call])

    def _run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Any]]:
        """Yield every call and its answer, as they arrive; `Lost` if its process died."""
        waiting, busy = deque(calls), dict[Connection, tuple[_Worker, Call]]()
        try:
            while waiting or busy:
                while waiting and (worker := self._idle(busy)) is not None:
                    call = waiting.popleft()
                    busy[worker.connection] = (worker, call)
                    worker.send(call)
                ready = wait(list(busy))
                for connection in [each for each in busy if each in ready]:
                    worker, call = busy[connection]
                    answered, result = worker.receive(self._services(call[0]))
                    if not answered:
                        continue  # it called the key service, and continues
                    del busy[connection]
                    if isinstance(result, Lost):
                        self._workers.remove(worker)
                        result = Lost(worker.end(died=True))
                        _LOG.warning("client %d: its process died%s", call[0], result.how)
                    yield call, result
        finally:
            for worker, _ in busy.values():  # their results are no longer needed
                self._workers.remove(worker)
                worker.end()

    def _idle(self, busy: dict[Connection, tuple[_Worker, Call]]) -> _Worker | None:
        """Return a worker without a call, if necessary a new one; None: all are busy, and none can be started."""
        for worker in self._workers:
            if worker.connection not in busy:
                return worker
        if len(self._workers) < self._count and may_fork():
            self._workers.append(_Worker(self._handle, [worker.connection for worker in self._workers]))
            return self._workers[-1]
        if not busy:
            raise WorkerDied("a client's process died, and no new one can be started while other threads are alive")
        return None


class _Worker:
    """One process, with one call at a time."""

    def __init__(self, handle: Handle, others: Sequence[Connection]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(handle, theirs, [self.connection, *others]))
        self._process.start()
        theirs.close()

    def send(self, call: Call) -> None:
        try:
            self.connection.send(call)
        except OSError:  # it died: `receive` reports it
            return

    def receive(self, service: Any) -> tuple[bool, Any]:
        """Receive an answer and return True and it; or forward a call to the key service and return False."""
        try:
            kind, content = self.connection.recv()
            if kind == "question":
                self.connection.send(_outcome(lambda: getattr(service, content[0])(*content[1])))
                return False, None
        except (EOFError, OSError):
            return True, Lost()
        return True, _result(content)

    def end(self, *, died: bool = False) -> str:
        """End the process, and return how it had already ended, if it had."""
        self.connection.close()
        if died:
            self._process.join(_DYING)
        code = self._process.exitcode
        self._process.terminate()
        self._process.join()
        self._process.close()
        if code == -signal.SIGKILL:
            return " (it was killed, perhaps for lack of memory; use fewer workers or a smaller batch_size)"
        return "" if code is None else f" ({f'signal {-code}' if code < 0 else f'exit code {code}'})"


class _ForwardedKeyService:
    """A key service in a worker that forwards calls to the main process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            self._connection.send(("question", (name, arguments)))
            return _result(self._connection.recv())

        return ask


def _serve(handle: Handle, connection: Connection, others: Sequence[Connection]) -> None:
    """Run a worker: answer calls until the main process ends."""
    for other in others:  # inherited pipes: while they are open here, the other workers do not see the main process end
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C and ends the workers
    torch.set_num_threads(1)
    service = _ForwardedKeyService(connection)
    while True:
        try:
            call = connection.recv()
            connection.send(("answer", _outcome(partial(handle, call, service))))
        except (EOFError, OSError):
            return


def _outcome(work: Callable[[], Any]) -> tuple[bool, Any]:
    try:
        return False, work()
    except Exception as error:
        return True, error


def _result(outcome: tuple[bool, Any]) -> Any:
    raised, value = outcome
    if raised:
        raise value
    return value


Intercept = Callable[[int, int, bytes], bytes | None]
Keep = Callable[[int, str, bytes], None]
OnReply = Callable[[str, int, int], None]


class LocalClients:
    """The handler of calls in a worker process; it can run any client of the run."""

    def __init__(self, run: str, context: ClientContext, initial: Vector, clip: float | None, folder: Path) -> None:
        """Store what all clients share; each client's files are in its own folder below `folder`."""
        self._run, self._context, self._initial, self._clip, self._folder = run, context, initial, clip, folder

    def __call__(self, call: Call, keyservice: ClientKeyService) -> Parts:
        """Return the client's answer, or the reason for its failure."""
        number, kind, parts = call
        folder = self._folder / str(number)
        client = Client(number, self._run, self._context, self._initial, self._clip, keyservice, folder)
        try:
            return client.answer(kind, parts)
        except SenseCryptError as error:
            return {FAILURE: str(error).encode()}


class LocalTransport:
    """The transport through pipes to worker processes, or directly to clients in the main process."""

    def __init__(
        self,
        workers: Workers,
        config: RunConfig,
        *,
        intercept: Intercept | None,
        keep: Keep,
        cost_model: CostModel | None,
        on_reply: OnReply = lambda *_: None,
    ) -> None:
        """Connect to all clients of the run.

        Args:
            workers: the workers that run the clients.
            config: the run's configuration.
            intercept: for tests: receives client, round and upload, and returns the bytes that arrive, or None.
            keep: saves what only the client knows about an upload, if messages are kept: round, name, content.
            cost_model: seconds per ciphertext in a calibrated run.
            on_reply: called after each reply with the kind of message, the number of replies and the number of clients.
        """
        self._on_reply = on_reply
        self._workers, self._config, self._intercept, self._keep = workers, config, intercept, keep
        self._cost_model, self._measures = cost_model, measures_bandwidth(config)

    def present(self, *, seconds: float) -> Mapping[int, Hashable]:  # noqa: ARG002 (all are there)
        """Return all clients."""
        return dict.fromkeys(range(self._config.problem.clients), "here")

    def ask(self, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:  # noqa: ARG002
        """Yield each client's reply as it arrives."""
        calls = [(client, kind, dict(parts)) for client, parts in requests.items()]
        for done, ((client, _, request), answer) in enumerate(self._workers.answers(calls), start=1):
            self._on_reply(kind, done, len(calls))
            if isinstance(answer, Lost):
                yield Reply(client, None, f"the client's process died{answer.how}")
                continue
            parts = dict(answer)
            if "upload" in parts:
                number = Assignment.from_bytes(request["assignment"]).number
                own = parts.pop("own", None)
                if own is not None:
                    self._keep(number, f"own-{client}", own)
                if self._intercept is not None:
                    arrives = self._intercept(client, number, parts["upload"])
                    if arrives is None:
                        yield Reply(client, None, "nothing arrived")
                        continue
                    parts["upload"] = arrives
            yield Reply(client, parts, seconds=self._seconds(client, parts) if self._measures else None)

    def refusals(self) -> list[Refusal]:
        """Return an empty list: no client is refused."""
        return []

    def _seconds(self, client: int, parts: Parts) -> float | None:
        """Return the seconds that the answer takes on the client's device; None: the answer has no times."""
        if "facts" not in parts:
            return None
        facts = facts_from_bytes(parts["facts"], "finish")
        if not facts.bytes_up:
            return None
        if self._cost_model is not None:
            facts = self._cost_model.apply(facts)
        rate = answer_bandwidth(facts, self._config.device(client, 0))
        return sum(map(len, parts.values())) / 1e6 / rate
