"""The audit log: one JSON line per event, each with the hash of the line before it.

A changed or removed line breaks the chain. A missing tail does not, so the database also has the number and hash of the
last line. An operator who keeps a head elsewhere (`sensecrypt dkms audit` prints it) can later prove that log and
database were not both rewritten.

A line is first committed to the database, together with the change that it reports, and then appended to the file.
After a crash between both, it is appended at the next start.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sensecrypt.errors import AuditFailed, ServiceError

Fact = str | int | float | bool | list[int]
Facts = dict[str, Fact]
MAX_TEXT = 200  # characters per fact, so that long names do not fill the log
RESTORE = (
    "restore it from a backup, and compare it with a head that was noted elsewhere: sensecrypt dkms audit --head HEAD"
)


@dataclass(frozen=True)
class Head:
    """The last line of a log."""

    number: int = 0  # how many lines there are
    digest: str = "0" * 64  # hash of the last

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read the text that `str` writes."""
        number, _, digest = text.partition(":")
        if not number.isdecimal() or len(number) > 18 or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise ServiceError("head", "is no number and hash", "pass it as `sensecrypt dkms audit` printed it")
        return cls(int(number), digest)


def next_line(head: Head, facts: Facts, now: datetime) -> tuple[str, Head]:
    """The line after `head`, and the new head."""
    short = {key: value[:MAX_TEXT] if isinstance(value, str) else value for key, value in facts.items()}
    time = now.astimezone(UTC).isoformat(timespec="milliseconds")
    fields = {"number": head.number + 1, "time": time, **short, "previous": head.digest}
    digest = _digest(fields)
    return json.dumps({**fields, "hash": digest}), Head(head.number + 1, digest)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the complete lines of a log; a last line without its end does not count."""
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                if line.endswith("\n"):
                    yield line[:-1]
    except FileNotFoundError:
        raise AuditFailed(str(path), "is missing", RESTORE) from None
    except (OSError, UnicodeDecodeError):
        raise AuditFailed(str(path), "cannot be read as a log", RESTORE) from None


def verify_chain(lines: Iterator[str], *, log: Path, known: Sequence[Head] = ()) -> tuple[Head, str | None]:
    """Check that the chain of lines is unbroken and contains all `known` heads; returns its head and last time.

    `AuditFailed` names the file `log` and the first wrong line.
    """

    def wrong(problem: str) -> AuditFailed:
        return AuditFailed(str(log), problem, RESTORE)

    head, time = Head(), None
    expected = {each.number: each.digest for each in known}
    for line in lines:
        number = head.number + 1
        try:
            fields: Any = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise wrong(f"line {number} was altered")
        digest = fields.pop("hash", None)
        if fields.get("number") != number or fields.get("previous") != head.digest:
            raise wrong(f"line {number} does not follow the one before it: lines were removed or moved")
        if digest != _digest(fields):
            raise wrong(f"line {number} was altered")
        head, time = Head(number, digest), str(fields.get("time"))
        if expected.pop(number, digest) != digest:
            raise wrong(f"line {number} is not the one that was noted: the log was rewritten")
    if missing := [number for number in expected if number > 0]:
        raise wrong(f"ends at line {head.number}, line {max(missing)} is known: its tail was cut off")
    return head, time


def added_lines(log: Path, found: Head, stored: Head) -> AuditFailed:
    """The error of a log that is longer than the database says."""
    problem = f"has {found.number} lines, the database knows of {stored.number}: lines were added"
    return AuditFailed(str(log), problem, RESTORE)


class LogFile:
    """The file, kept open for appending, so that a new line needs no new descriptor."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def append(self, lines: Sequence[str]) -> None:
        """Add lines and flush them to disk; all, or none and an `OSError`."""
        data, end = "".join(f"{line}\n" for line in lines).encode(), os.fstat(self._file.fileno()).st_size
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(end)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def repair(path: Path, waiting: Sequence[tuple[int, str]]) -> None:
    """Append the lines in the database that the file lacks after a crash."""
    with path.open("rb+") as file:
        count, whole, torn = 0, 0, b""
        for line in file:
            if line.endswith(b"\n"):
                count, whole = count + 1, whole + len(line)
            else:
                torn = line
        missing = [text for number, text in waiting if number > count]
        if torn and not (missing and missing[0].encode().startswith(torn)):
            raise AuditFailed(str(path), "ends in a line that the service did not write", RESTORE)
        file.seek(whole)
        file.truncate()
        file.write("".join(f"{text}\n" for text in missing).encode())
        file.flush()
        os.fsync(file.fileno())


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
