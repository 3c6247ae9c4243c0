"""What keeps a client of a fleet from being asked twice, and from starting at a model that its rounds cannot lead to.

An aggregator that asks for an earlier round again, for the same one with another budget, or for training from one model
in two rounds could compare the answers; so could one that puts a client into other clusters, or has it rank its
parameters again and again. So within a run every attempt is played once, in order, each round from the model of the
round before, in the first cluster; parameters are ranked before all rounds.

Across runs: training twice from one model on the same data, once with a client in the sum and once without it, gives
that client's model by subtraction. So a client trains from one model with the same data in one run only. One file per
pair of start model and data, in the client's state folder, names that run. The folder belongs to one identity file, and
so to one key service; a second service that is used with the same folder is covered, too.
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
_INITIAL = [-1, -1]  # as a start: the initial model
_RANKING = -1  # as a round's number: parameters are ranked


class ReplayGuard:
    """The guard of one client in one run, kept in files so that it outlives the process."""

    def __init__(self, state: Path, run: str, data: ClientData) -> None:
        """Use the client's state folder, of which the folder `run` is the run's."""
        self._state, self._run, self._fingerprint = state, run, data.fingerprint()
        self._folder = state / run

    def begin(self, assignment: Assignment) -> None:
        """Note an attempt before it is played; raise `Rejected` if it is not later than all before."""
        if (assignment.start or _INITIAL)[0] != assignment.number - 1:
            raise Rejected(f"round {assignment.number} starts from the model of the round before, and from no other")
        self.require_latest(assignment)
        self._note(assignment, [assignment.number, assignment.attempt])

    def rank(self, assignment: Assignment) -> None:
        """Note that parameters are ranked, which comes before all rounds; raise `Rejected` after one."""
        if assignment.number != 0:
            raise Rejected("parameters are ranked before the first round only")
        self._note(assignment, [_RANKING, assignment.attempt])

    def require_latest(self, assignment: Assignment) -> None:
        """Raise `Rejected` if a model is older than the last start, or another cluster's."""
        start, played = list(assignment.start or _INITIAL), self._played()
        if start < played["start"]:
            raise Rejected(f"a model of round {start[0]} was asked for after one of round {played['start'][0]}")
        _require_cluster(assignment, played)

    def require_unused(self, start: Vector) -> None:
        """Raise `Rejected` if another run has started from this model; nothing is noted."""
        path = self._claim_path(start)
        if path.exists():
            self._require_own(path.read_text(encoding="utf-8", errors="replace"))

    def claim(self, start: Vector) -> None:
        """Note that this run starts from this model; raise `Rejected` if another run has."""
        path = self._claim_path(start)
        make_folder(path.parent)
        try:
            self._require_own(_write_once(path, self._run))
        except OSError as error:
            raise SenseCryptError(f"{path} cannot be written: {error.strerror}; free some space") from None

    def check_start(self, moved: Vector, size: int, number: int, *, reach: float, statistics: int) -> None:
        """Raise unless clipped updates lead here from the last start, which this one then replaces.

        Args:
            moved: how far the cluster has moved.
            size: parameters of the model.
            number: of the round after which it has.
            reach: how far one round may move its parameters.
            statistics: how many values at the end are none.
        """
        path, before, then = self._folder / "start.safetensors", np.zeros(size, dtype=np.float32), -1
        try:
            data = path.read_bytes()
            header, arrays = parse(data, "start", header={"number": int}, tensors={"moved": (np.dtype("<f4"), 1)})
            before, then = arrays["moved"], header["number"]
        except FileNotFoundError:
            make_folder(self._folder)
        except Rejected:
            raise Rejected(f"{path} is damaged: the next model cannot be checked, so none is trained") from None
        check_start(moved, before, norm=reach, rounds=max(number - then, 0), statistics=statistics)
        write_whole(path, serialize("start", {"number": number}, {"moved": moved.astype("<f4")}))

    def _note(self, assignment: Assignment, now: list[int]) -> None:
        played = self._played()
        if now <= played["played"]:
            raise Rejected(f"{_words(now)} was asked for after {_words(played['played'])}")
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
            raise Rejected(f"{path} is damaged: what was played is not known, so nothing is")
        return played

    def _claim_path(self, start: Vector) -> Path:
        model = hashlib.sha256(start.tobytes()).hexdigest()
        name = hashlib.sha256(f"{model} {self._fingerprint}".encode()).hexdigest()
        return self._state / "starts" / name

    def _require_own(self, owner: str) -> None:
        if owner != self._run:
            known = f"run {owner}" if NAME.fullmatch(owner) else "another run, whose name is damaged"
            fix = "resume that run, or start a new one from another model, such as that of another seed"
            problem = f"this client has started from this model with the same data in {known}"
            raise Rejected(f"{problem}; {fix}", code=REPLAYED)


def _require_cluster(assignment: Assignment, played: dict[str, Any]) -> None:
    if played["cluster"] not in (None, assignment.cluster):
        raise Rejected(f"cluster {assignment.cluster} was asked for after cluster {played['cluster']}")


def _words(played: list[int]) -> str:
    number, attempt = played
    return f"{'ranking' if number == _RANKING else f'round {number}'}, attempt {attempt}"


def _write_once(path: Path, text: str) -> str:
    """Write the file unless it exists, and return its text. Of two processes at once, one writes."""
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
