"""Flower's SuperExec for the nodes of a fleet on one machine: libraries are imported once, not for every message.

Flower starts a new process per message, which imports PyTorch first. Here these processes are forks of one that has
imported it already: each message still has a process of its own, and nothing that one leaves behind reaches the next.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from flwr.supercore.cli import flower_superexec
from flwr.supercore.superexec.executor import subprocess_executor
from flwr.supernode.cli import flwr_clientapp

_CLIENT_APP = "flwr-clientapp"
_IMPORTED_ONCE = ("sklearn.datasets", "sensecrypt.transports.flower.clientapp", "sensecrypt.algo.sketching")


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
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)
    with os.fdopen(commands) as lines:
        for line in lines:
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                sys.argv = json.loads(line)
                flwr_clientapp()
                return
