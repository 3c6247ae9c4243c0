"""The replay guard refuses repeated requests to a fleet's client, and start models that its rounds cannot lead to.

An aggregator could compare the answers if it repeated an earlier round, repeated a round with another budget, requested
training from the same model in two rounds, moved a client to another cluster, or had it rank its parameters repeatedly.
So within a run, a client plays every attempt once and in order, each round from the model of the round before and in
its first cluster. It ranks parameters before all rounds.

Across runs: two trainings from the same model on the same data, one with a client in the sum and one without it, reveal
that client's model by subtraction. So a client trains from one model with the same data in one run only. One file per
pair of start model and data, in the client's state folder, names that run. The folder belongs to one identity file, and
so to one key service; it also protects if a second service is used with the same folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from sensecrypt.algo.clipping import check_start
from sensecrypt.client.context import Vector
from sensecrypt.client.data import ClientData
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.files import make_folder, write_whole
from sensecrypt.keyservice.names import NAME
from sensecrypt.protocol.envelope import parse, serialize
from sensecrypt.protocol.requests import Assignment

REPLAYED = "replayed"
_INITIAL = [-1, -1]  # the `start` of the initial model
_RANKING = -1  # the round number of ranking


class ReplayGuard:
    """The guard of one client in one run. Its state is in files, so that it survives restarts."""

    def __init__(self, state: Path, run: str, data: ClientData) -> None:
        """Use the client's state folder, whose subfolder `run` belongs to the run."""
        self._state, self._run, self._fingerprint = state, run, data.fingerprint()
        self._folder = state / run

    def begin(self, assignment: Assignment) -> None:
        """Record an attempt before it starts; raise `Rejected` if it is not later than all recorded attempts."""
        if (assignment.start or _INITIAL)[0] != assignment.number - 1:
            raise Rejected(f"round {assignment.number} must start from the model of the round before")
        self.require_latest(assignment)
        self._note(assignment, [assignment.number, assignment.attempt])

    def rank(self, assignment: Assignment) -> None:
        """Record that parameters are ranked; raise `Rejected` after the first round."""
        if assignment.number != 0:
            raise Rejected("parameters are ranked only before the first round")
        self._note(assignment, [_RANKING, assignment.attempt])

    def require_latest(self, assignment: Assignment) -> None:
        """Raise `Rejected` if a model is older than the last start model, or of another cluster."""
        start, played = list(assignment.start or _INITIAL), self._played()
        if start < played["start"]:
            raise Rejected(f"a model of round {start[0]} was requested after one of round {played['start'][0]}")
        _require_cluster(assignment, played)

    def require_unused(self, start: Vector) -> None:
        """Raise `Rejected` if another run started from this model; record nothing."""
        path = self._claim_path(start)
        if path.exists():
            self._require_own(path.read_text(encoding="utf-8", errors="replace"))

    def claim(self, start: Vector) -> None:
        """Record that this run starts from this model; raise `Rejected` if another run did."""
        path = self._claim_path(start)
        make_folder(path.parent)
        try:
            self._require_own(_write_once(path, self._run))
        except OSError as error:
            raise SenseCryptError(f"{path} cannot be written: {error.strerror}; free some space") from None

    def check_start(self, moved: Vector, size: int, number: int, *, reach: float, statistics: int) -> None:
        """Raise if clipped updates cannot lead from the previous start model to this one; then store this one.

        Args:
            moved: how far the cluster has moved.
            size: number of parameters of the model.
            number: the round after which it has moved that far.
            reach: how far one round may move the parameters.
            statistics: number of values at the end that are statistics.
        """
        path, before, then = self._folder / "start.safetensors", np.zeros(size, dtype=np.float32), -1
        try:
            data = path.read_bytes()
            header, arrays = parse(data, "start", header={"number": int}, tensors={"moved": (np.dtype("<f4"), 1)})
            before, then = arrays["moved"], header["number"]
        except FileNotFoundError:
            make_folder(self._folder)
        except Rejected:
            raise Rejected(f"{path} is damaged: the start model cannot be checked, so it is not trained") from None
        check_start(moved, before, norm=reach, rounds=max(number - then, 0), statistics=statistics)
        write_whole(path, serialize("start", {"number": number}, {"moved": moved.astype("<f4")}))

    def _note(self, assignment: Assignment, now: list[int]) -> None:
        played = self._played()
        if now <= played["played"]:
            raise Rejected(f"{_words(now)} was requested after {_words(played['played'])}")
        _require_cluster(assignment, played)
        make_folder(self._folder)
        content = {"played": now, "start": list(assignment.start or _INITIAL), "cluster": assignment.cluster}
        write_whole(self._folder / "played.json", json.dumps(content).encode())

    def _played(self) -> dict[str, Any]:
        path = self._folder / "played.json"
        try:
            played = json.loads(path.read_text())
        except FileNotFoundError:
            return {"played": [_RANKING, -1], "start": _INITIAL, "cluster": None}
        except ValueError:
            played = None
        if not isinstance(played, dict) or played.keys() != {"played", "start", "cluster"}:
            raise Rejected(f"{path} is damaged: earlier rounds are not known, so no round is played")
        return played

    def _claim_path(self, start: Vector) -> Path:
        model = hashlib.sha256(start.tobytes()).hexdigest()
        name = hashlib.sha256(f"{model} {self._fingerprint}".encode()).hexdigest()
        return self._state / "starts" / name

    def _require_own(self, owner: str) -> None:
        if owner != self._run:
            known = f"run {owner}" if NAME.fullmatch(owner) else "another run, whose name is damaged"
            fix = "resume that run, or start a new one from another model, for example with another seed"
            problem = f"this client has started from this model with the same data in {known}"
            raise Rejected(f"{problem}; {fix}", code=REPLAYED)


def _require_cluster(assignment: Assignment, played: dict[str, Any]) -> None:
    if played["cluster"] not in (None, assignment.cluster):
        raise Rejected(f"cluster {assignment.cluster} was requested after cluster {played['cluster']}")


def _words(played: list[int]) -> str:
    number, attempt = played
    return f"{'ranking' if number == _RANKING else f'round {number}'}, attempt {attempt}"


def _write_once(path: Path, text: str) -> str:
    """Write the file unless it exists, and return its text; if two processes try, one writes."""
    partial = path.with_name(f".{secrets.token_hex(8)}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError:
        return path.read_text(encoding="utf-8", errors="replace")
    finally:
        partial.unlink(missing_ok=True)
    return text
