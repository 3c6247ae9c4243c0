"""Runs commands and lines of Python, each in a forked process: for an environment's own Python, without pytest.

Reads entries from standard input, and prints as JSON their exit codes and what they printed. The second part of an
entry ends it by SIGTERM: a text, once it has printed that; a number, after so many seconds of processor time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import shlex
import signal
import sys
import time
import traceback
from pathlib import Path

from sensecrypt.cli import main

NUMBERS = itertools.count()
LONGEST, LATEST = 20.0, 120.0  # seconds: of a command that is ended after a while, and until one is up


def child(line: str, out: Path, err: Path) -> None:
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY), number)
    try:
        if line.startswith("sensecrypt "):
            sys.argv = shlex.split(line)
            main()
        else:
            exec(line, {})  # noqa: S102  (the test's own line)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def used(group: int) -> float:
    """Processor seconds that the processes of a group have used."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12]) if int(fields[2]) == group else 0
    return total / os.sysconf("SC_CLK_TCK")


def run(line: str, until: str | float | None) -> dict[str, object]:
    number = next(NUMBERS)  # files of its own: a helper of an earlier command may still write to that one's
    out, err = Path(f"out-{number}"), Path(f"err-{number}")
    out.write_text("")
    err.write_text("")
    start = time.monotonic()
    process = os.fork()
    if not process:
        os.setpgid(0, 0)
        child(line, out, err)
    ended, status, stopped = 0, 0, False
    while not ended:
        ended, status = os.waitpid(process, 0 if until is None else os.WNOHANG)
        if not ended and until is not None:
            time.sleep(0.05)
            spent = time.monotonic() - start
            if isinstance(until, str) and (until in out.read_text() or spent > LATEST):
                os.kill(process, signal.SIGTERM)  # it ends its helpers itself
                stopped, until = True, None
            elif isinstance(until, float) and (used(process) > until or spent > LONGEST):
                os.killpg(process, signal.SIGTERM)
                stopped, until = True, None
    code = os.waitstatus_to_exitcode(status)
    seconds = round(time.monotonic() - start, 2)
    return {
        "code": code,
        "stopped": stopped,
        "out": out.read_text(),
        "err": err.read_text(),
        "seconds": seconds,
    }


if __name__ == "__main__":
    if importlib.util.find_spec("torch"):
        import torch  # noqa: F401  (once, for all commands)
    sys.stdout.write(json.dumps([run(*entry) for entry in json.load(sys.stdin)]))
