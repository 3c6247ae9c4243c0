"""The processes of one part: the one that the fleet has started, and its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from sensecrypt.lab.fleet.commands import TAG

_PROC = Path("/proc")


def tagged(tag: str) -> list[int]:
    """All processes with this tag in their environment.

    SuperLink starts its child processes in sessions of their own, so a process group is not enough. Without /proc the
    list is empty: Flower's processes end themselves within a second of the end of their parent.
    """
    wanted = f"{TAG}={tag}".encode()
    found = []
    for place in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or of another user
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def running(tag: str, word: str) -> list[int]:
    """The processes of a tag whose command has that word."""
    return [pid for pid in tagged(tag) if word in _command(pid)]


def sweep(tag: str, *, seconds: float) -> None:
    """End all processes of a tag: with SIGTERM, and with SIGKILL after so many seconds."""
    if seconds:
        _signal(tagged(tag), signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while tagged(tag) and time.monotonic() < deadline:
            time.sleep(0.05)
    while remaining := tagged(tag):  # processes that are started meanwhile are found in the next turn
        _signal(remaining, signal.SIGKILL)
        time.sleep(0.02)


def end(pids: Iterable[int], *, seconds: float, ask: bool = True) -> None:
    """Wait until these have ended, at most so many seconds; with `ask`, send them SIGTERM first."""
    left = list(pids)
    if ask:
        _signal(left, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in left if _command(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)


def _command(pid: int) -> str:
    """The command of a process; empty if it has ended."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
