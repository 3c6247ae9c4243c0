"""Messages to clients on this machine: no network, no certificates, every client always there."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path

from sensecrypt.client.client import Client
from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.config import RunConfig
from sensecrypt.coordinator.budgets import measures_bandwidth
from sensecrypt.coordinator.ports import Record, Reply
from sensecrypt.errors import SenseCryptError
from sensecrypt.keyservice.port import ClientKeyService
from sensecrypt.protocol.coordination import FAILURE, Assignment, Parts
from sensecrypt.protocol.envelope import parse
from sensecrypt.simulation.clock import CostModel, answer_bandwidth
from sensecrypt.transports.local.workers import Call, Lost, Workers

Intercept = Callable[[int, int, bytes], bytes | None]
Keep = Callable[[int, str, bytes], None]
OnReply = Callable[[str, int, int], None]


class LocalClients:
    """Plays any client of a run: what a worker process does with a message."""

    def __init__(self, run: str, context: ClientContext, initial: Vector, clip: float | None, folder: Path) -> None:
        """For clients that have all of this in common; each keeps its files below `folder`."""
        self._run, self._context, self._initial, self._clip, self._folder = run, context, initial, clip, folder

    def __call__(self, call: Call, keyservice: ClientKeyService) -> Parts:
        """What the client answers, or why it does not."""
        number, kind, parts = call
        folder = self._folder / str(number)
        client = Client(number, self._run, self._context, self._initial, self._clip, keyservice, folder)
        try:
            return client.answer(kind, parts)
        except SenseCryptError as error:
            return {FAILURE: str(error).encode()}


class LocalTransport:
    """Messages through pipes to worker processes, or straight to the client in this one."""

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
        """To all clients of the run.

        Args:
            workers: who plays the clients.
            config: of the run.
            intercept: stands between clients and coordinator, for tests: returns the bytes that arrive, or None.
            keep: takes what only the client knows of an upload, where messages are kept: round, name, content.
            cost_model: what cryptography is charged with in a calibrated run.
            on_reply: called with the kind of a message and how many of how many clients have answered it.
        """
        self._on_reply = on_reply
        self._workers, self._config, self._intercept, self._keep = workers, config, intercept, keep
        self._cost_model, self._measures = cost_model, measures_bandwidth(config)

    def present(self, *, seconds: float) -> Mapping[int, Hashable]:  # noqa: ARG002 (nobody is waited for)
        """Everybody, always."""
        return dict.fromkeys(range(self._config.problem.clients), "here")

    def ask(self, kind: str, requests: Mapping[int, Parts], *, seconds: float) -> Iterator[Reply]:  # noqa: ARG002
        """Each client's reply, as it is done."""
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
            yield Reply(client, parts, seconds=self._seconds(client, parts))

    def refusals(self) -> list[Record]:
        """Nobody is refused."""
        return []

    def _seconds(self, client: int, parts: Parts) -> float | None:
        """How long the answer would have taken the client's device, if it says what it took."""
        if not self._measures or "facts" not in parts:
            return None
        facts = json.loads(parse(parts["facts"], "facts", header={"facts": str}, tensors={})[0]["facts"])
        if not facts.get("bytes_up"):
            return None
        if self._cost_model is not None:
            facts = self._cost_model.charge_present(facts)
        rate = answer_bandwidth(facts, self._config.devices(0)[client])
        return sum(map(len, parts.values())) / 1e6 / rate
