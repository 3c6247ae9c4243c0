"""Shows the progress of a run on standard error: one line that is rewritten, only in terminals and notebooks.

It does not start a thread, because worker processes are forked while it is shown.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping

_WIDTH = 100
_PAUSE = 0.1  # minimum seconds between two updates
_WORDS = {"enrol": "clients enrol", "rank": "parameters are ranked", "propose": "clients propose", "train": "training"}


class Progress:
    """The progress line of one run."""

    def __init__(self, rounds: int, *, shown: bool) -> None:
        """Start at round 0 of `rounds`; the line is shown only in terminals and notebooks."""
        self._shown, self._rounds, self._done = shown and _is_seen(), rounds, 0
        self._last, self._figures = 0.0, ""

    def reply(self, kind: str, done: int, total: int) -> None:
        """Show that `done` of `total` clients have answered."""
        self._write(f"{_WORDS.get(kind, kind)}: {done} of {total} clients", at_once=done in (1, total))

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Show that a round is over, with its figures."""
        self._done = number + 1
        self._figures = "  ".join(f"{name} {value:.4g}" for name, value in figures.items() if not math.isnan(value))
        self._write("", at_once=True)

    def end(self) -> None:
        """End the line."""
        if self._shown and self._last:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _write(self, now: str, *, at_once: bool) -> None:
        if not self._shown or (not at_once and time.monotonic() - self._last < _PAUSE):
            return
        self._last = time.monotonic()
        parts = [f"round {self._done} of {self._rounds}", self._figures, now]
        sys.stderr.write("\r" + "   ".join(part for part in parts if part)[:_WIDTH].ljust(_WIDTH))
        sys.stderr.flush()


def _is_seen() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
