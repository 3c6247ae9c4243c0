"""A SuperNode of a fleet on one machine: libraries are imported once per node, and new messages start at once.

Flower starts a SuperExec per SuperNode and a process per message, each of which imports Flower, and the last one
PyTorch. Here all of them are forks of one process that has imported both. Each message still has a process of its own,
whose memory is not shared with the next one's. Flower's SuperNode waits 3 seconds between two requests for messages;
this one waits a quarter of a second, which the SuperLink of a small fleet can bear.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import IO, Any, NoReturn

import numpy as np
from flwr.supercore.cli import flower_superexec
from flwr.supercore.superexec.executor import subprocess_executor
from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode, flwr_clientapp

_SUPEREXEC, _CLIENT_APP = "flower-superexec", "flwr-clientapp"
_PAUSE_SECONDS = 0.25  # between two requests for messages, at most
_IMPORTED_ONCE = (
    "httpcore",
    "sklearn.datasets",
    "torch._dynamo",  # which the first optimiser of a process imports, in two seconds
    "sensecrypt.transports.flower.clientapp",
    "sensecrypt.algo.sketching",
)


def main() -> None:
    """Run the SuperNode, its SuperExec and a process that forks ClientApps."""
    superexec = _fork(_run_superexec)
    start_client_internal.subprocess = _starts(_SUPEREXEC, superexec)  # type: ignore[attr-defined, assignment]
    start_client_internal.time = SimpleNamespace(  # type: ignore[attr-defined, assignment]
        sleep=lambda seconds: time.sleep(min(seconds, _PAUSE_SECONDS))
    )
    flower_supernode()


def _fork(work: Callable[[IO[str]], None]) -> int:
    """Fork a process that does this work with the lines of a pipe; the end of the pipe to write to."""
    read, write = os.pipe()
    if os.fork():
        os.close(read)
        return write
    os.close(write)
    with os.fdopen(read) as lines:
        work(lines)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _starts(name: str, commands: int) -> SimpleNamespace:
    """A `subprocess` whose `Popen` writes commands of that name to a pipe, and starts others as usual."""

    def start(command: list[str], **options: Any) -> None:
        if command[0] == name:
            os.write(commands, json.dumps(command).encode() + b"\n")
        else:
            subprocess.Popen(command, **options)  # noqa: S603  (Flower's own command)

    return SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)


def _run_superexec(commands: IO[str]) -> None:
    """Run SuperExec with the one command that comes; nothing if the SuperNode ends before."""
    client_apps = _fork(_fork_client_apps)
    subprocess_executor.subprocess = _starts(_CLIENT_APP, client_apps)  # type: ignore[attr-defined, assignment]
    line = commands.readline()
    if line:
        sys.argv = json.loads(line)
        flower_superexec()


def _fork_client_apps(commands: IO[str]) -> None:
    """Run each command in a fork of this process, until SuperExec has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the forks
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)
    gc.freeze()  # else each fork copies every object that its garbage collector looks at
    for line in commands:
        if os.fork() == 0:
            _run_client_app(json.loads(line))


def _run_client_app(command: list[str]) -> NoReturn:
    """Run Flower's command, and end without the interpreter's own end, which takes a second after a fork."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    np.random.seed()  # noqa: NPY002  (else all forks draw the same numbers, such as the noise of Flower's LocalDpMod)
    sys.argv = command
    code = 1
    try:
        flwr_clientapp()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
