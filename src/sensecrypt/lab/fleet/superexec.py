"""Flower's SuperExec for the nodes of a fleet on one machine: libraries are imported once, not for every message.

Flower starts a new process per message, which imports PyTorch first. Here these processes are forks of one that has
imported it already: each message still has a process of its own, and nothing that one leaves behind reaches the next.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

from flwr.supercore.cli import flower_superexec
from flwr.supercore.superexec.executor import subprocess_executor
from flwr.supernode.cli import flwr_clientapp

_CLIENT_APP = "flwr-clientapp"
_IMPORTED_ONCE = (
    "httpcore",
    "sklearn.datasets",
    "torch._dynamo",  # by the first optimiser of a process, in two seconds
    "sensecrypt.transports.flower.clientapp",
    "sensecrypt.algo.sketching",
)


def main() -> None:
    """SuperExec, with a process beside it that forks ClientApps."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(write)
        _fork_client_apps(read)
        return
    os.close(read)

    def start(command: list[str], **options: Any) -> None:
        if command[0] == _CLIENT_APP:
            os.write(write, json.dumps(command).encode() + b"\n")
        else:
            subprocess.Popen(command, **options)  # noqa: S603  (Flower's own command)

    subprocess_executor.subprocess = SimpleNamespace(  # type: ignore[attr-defined, assignment]
        Popen=start, DEVNULL=subprocess.DEVNULL
    )
    flower_superexec()


def _fork_client_apps(commands: int) -> None:
    """Run each command that comes in a fork of this process, until SuperExec has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for them
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)
    gc.freeze()  # else each fork copies every object that its garbage collector looks at
    with os.fdopen(commands) as lines:
        for line in lines:
            if os.fork() == 0:
                _run_client_app(json.loads(line))


def _run_client_app(command: list[str]) -> NoReturn:
    """Flower's command in this process, which ends without tearing down what it shares with others: that takes 1 s."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
