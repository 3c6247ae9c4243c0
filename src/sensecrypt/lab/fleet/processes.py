"""The processes of one part: the one we started, and all that it started in turn."""

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
    """All processes that carry this tag in their environment.

    SuperLink starts its helpers in sessions of their own, so a process group is not enough. Where there is no /proc,
    nobody is found: Flower's helpers end themselves within a second of whoever started them.
    """
    wanted = f"{TAG}={tag}".encode()
    found = []
    for place in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def running(tag: str, word: str) -> list[int]:
    """The processes of a tag whose command has that word."""
    return [pid for pid in tagged(tag) if word in _command(pid)]


def sweep(tag: str, *, seconds: float) -> None:
    """End all processes of a tag: SIGTERM, and SIGKILL for those that are still there after so many seconds."""
    if seconds:
        _signal(tagged(tag), signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while tagged(tag) and time.monotonic() < deadline:
            time.sleep(0.05)
    while remaining := tagged(tag):  # whoever starts another one meanwhile is found in the next turn
        _signal(remaining, signal.SIGKILL)
        time.sleep(0.02)


def end(pids: Iterable[int], *, seconds: float, ask: bool = True) -> None:
    """Wait so many seconds until these have ended, or less; `ask` them to."""
    left = list(pids)
    if ask:
        _signal(left, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in left if _command(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)


def _command(pid: int) -> str:
    """How a process was started; nothing if it has ended."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
