"""What keeps a client from being asked twice: rounds within a run, starts across runs, models out of reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from sensecrypt.algo.clipping import check_start
from sensecrypt.client.data import ClientData
from sensecrypt.client.laststart import LastStart
from sensecrypt.client.replayguard import ReplayGuard
from sensecrypt.client.starts import Starts
from sensecrypt.protocol.coordination import Assignment

Vector = npt.NDArray[np.float32]


class Guards:
    """All of one client in one run."""

    def __init__(self, state: Path, run: str, data: ClientData) -> None:
        """In the client's state folder, of which one folder is the run's."""
        self._diary, self._last = ReplayGuard(state / run), LastStart(state / run)
        self._starts = Starts(state, data)

    def rank(self, assignment: Assignment) -> None:
        """Note that parameters are ranked; raise `Rejected` after a round."""
        self._diary.rank(assignment)

    def begin(self, assignment: Assignment) -> None:
        """Note an attempt before it is played; raise `Rejected` if it is not later than all before."""
        self._diary.begin(assignment)

    def require_latest(self, assignment: Assignment) -> None:
        """Raise `Rejected` if a model is older than the one that was started from before, or another cluster's."""
        self._diary.require_latest(assignment)

    def require_unused(self, start: Vector, run: str) -> None:
        """Raise `Rejected` if another run has started from this model; nothing is noted."""
        self._starts.require_unused(start, run)

    def claim(self, start: Vector, run: str) -> None:
        """Note that this run starts from this model; raise `Rejected` if another run has."""
        self._starts.claim(start, run)

    def check_start(self, moved: Vector, size: int, number: int, *, reach: float, statistics: int) -> None:
        """Raise unless clipped updates lead here from the last start, which this one then replaces.

        Args:
            moved: how far the cluster has moved.
            size: parameters of the model.
            number: of the round after which it has.
            reach: how far one round may move its parameters.
            statistics: how many values at the end are none.
        """
        before, then = self._last.read(size=size)
        check_start(moved, before, norm=reach, rounds=max(number - then, 0), statistics=statistics)
        self._last.write(moved, number)
