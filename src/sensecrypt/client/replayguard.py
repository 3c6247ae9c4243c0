"""What a client remembers of a run: its cluster, the last attempt that it played, and where it started.

An aggregator that asks for an earlier round again, for the same one with another budget, or for training from one model
in two rounds could compare the answers; so could one that puts a client into other clusters, or has it rank its
parameters again and again. So every attempt is played once, in order, each round from the model of the round before, in
the first cluster; parameters are ranked before all rounds; and nobody goes back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sensecrypt.errors import Rejected
from sensecrypt.files import make_folder, write_whole
from sensecrypt.protocol.coordination import Assignment

_BEFORE = [-1, -1]  # any round
_RANKING = -1


class ReplayGuard:
    """A small file in the client's folder of the run."""

    def __init__(self, folder: Path) -> None:
        """Empty, if there is none yet."""
        self._folder, self._path = folder, folder / "played.json"

    def begin(self, assignment: Assignment) -> None:
        """Note an attempt before it is played; raise `Rejected` if it is not later than all before."""
        if (assignment.start or _BEFORE)[0] != assignment.number - 1:
            raise Rejected(f"round {assignment.number} starts from the model of the round before, and from no other")
        self.require_latest(assignment)
        self._note(assignment, [assignment.number, assignment.attempt])

    def rank(self, assignment: Assignment) -> None:
        """Note that parameters are ranked, which comes before all rounds; raise `Rejected` after one."""
        if assignment.number != 0:
            raise Rejected("parameters are ranked before the first round only")
        self._note(assignment, [_RANKING, assignment.attempt])

    def _note(self, assignment: Assignment, now: list[int]) -> None:
        fields = self._read()
        if now <= fields["played"]:
            raise Rejected(f"{_words(now)} was asked for after {_words(fields['played'])}")
        _require_cluster(assignment, fields)
        start = list(assignment.start or _BEFORE)
        make_folder(self._folder)
        content = {"played": now, "start": start, "cluster": assignment.cluster}
        write_whole(self._path, json.dumps(content).encode())

    def require_latest(self, assignment: Assignment) -> None:
        """Raise `Rejected` if a model is older than the one that was started from before, or another cluster's."""
        start, fields = list(assignment.start or _BEFORE), self._read()
        if start < fields["start"]:
            raise Rejected(f"a model of round {start[0]} was asked for after one of round {fields['start'][0]}")
        _require_cluster(assignment, fields)

    def _read(self) -> dict[str, Any]:
        try:
            fields = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {"played": [_RANKING, -1], "start": _BEFORE, "cluster": None}
        except ValueError:
            fields = None
        if not isinstance(fields, dict) or fields.keys() != {"played", "start", "cluster"}:
            raise Rejected(f"{self._path} is damaged: what was played is not known, so nothing is")
        return fields


def _require_cluster(assignment: Assignment, fields: dict[str, Any]) -> None:
    if fields["cluster"] not in (None, assignment.cluster):
        raise Rejected(f"cluster {assignment.cluster} was asked for after cluster {fields['cluster']}")


def _words(played: list[int]) -> str:
    number, attempt = played
    return f"{'ranking' if number == _RANKING else f'round {number}'}, attempt {attempt}"
