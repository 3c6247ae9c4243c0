"""What a client remembers of a run: the last attempt that it played, and where it started.

An aggregator that asks for an earlier round again, for the same one with another budget, or for training from one model
in two rounds could compare the answers. So every attempt is played once, in order, each round from the model of the
round before, and nobody goes back.
"""

from __future__ import annotations

import json
from pathlib import Path

from sensecrypt.engines.flower.messages import Assignment
from sensecrypt.errors import Rejected
from sensecrypt.files import make_folder, write_whole

_BEFORE = [-1, -1]  # any round


class Diary:
    """A small file in the client's folder of the run."""

    def __init__(self, folder: Path) -> None:
        """Empty, if there is none yet."""
        self._folder, self._path = folder, folder / "played.json"

    def begin(self, assignment: Assignment) -> None:
        """Note an attempt before it is played; raise `Rejected` if it is not later than all before."""
        now = [assignment.number, assignment.attempt]
        played, _ = self._read()
        if now <= played:
            raise Rejected(
                f"round {now[0]}, attempt {now[1]} was asked for after round {played[0]}, attempt {played[1]}"
            )
        if (assignment.start or _BEFORE)[0] != now[0] - 1:
            raise Rejected(f"round {now[0]} starts from the model of the round before, and from no other")
        self.require_latest(assignment)
        make_folder(self._folder)
        write_whole(self._path, json.dumps({"played": now, "start": list(assignment.start or _BEFORE)}).encode())

    def require_latest(self, assignment: Assignment) -> None:
        """Raise `Rejected` if a model is older than the one that was started from before."""
        start = list(assignment.start or _BEFORE)
        _, seen = self._read()
        if start < seen:
            raise Rejected(f"a model of round {start[0]} was asked for after one of round {seen[0]}")

    def _read(self) -> tuple[list[int], list[int]]:
        try:
            fields = json.loads(self._path.read_text())
        except FileNotFoundError:
            return _BEFORE, _BEFORE
        return fields["played"], fields["start"]
