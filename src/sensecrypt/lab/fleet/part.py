"""One part of a fleet: a process that can be started, ended, killed and restarted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sensecrypt.errors import SenseCryptError
from sensecrypt.lab.fleet.commands import TAG
from sensecrypt.lab.fleet.processes import sweep

END_SECONDS = 20.0  # for a clean end
REFUSED_SECONDS = 5.0  # between two tries of a part that is refused
_SWEEP_SECONDS = 2.0  # for child processes that outlive their part
_POLL_SECONDS = 0.1


class Part:
    """A process with a log; its port is part of its command.

    Attributes:
        name: such as node-0.
        log: the output of it and its child processes; restarts append to it.
        wanted: whether it should run: started, and not ended by us.
        started: when it was last started, on the monotonic clock.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        is_ready: Callable[[Part], bool],
        refusal: str | None = None,
    ) -> None:
        """Describe a part; `start` starts it.

        Args:
            name: of the part.
            command: that starts it.
            environment: of the process, with its tag.
            log: the file of its output.
            is_ready: whether it works; called repeatedly after a start.
            refusal: a text in its log if it ended because SuperLink refused it.
        """
        self.name, self.log, self.wanted, self.started = name, log, False, 0.0
        self._command, self._environment = list(command), dict(environment)
        self._is_ready, self._refusal = is_ready, refusal
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The number of its process while that runs."""
        return self._process.pid if self._process is not None and self.alive else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of its last process, if that has ended; negative: the signal that ended it."""
        return None if self._process is None else self._process.poll()

    @property
    def age(self) -> float:
        """Seconds since it was last started."""
        return time.monotonic() - self.started

    @property
    def refused(self) -> bool:
        """Whether it ended because SuperLink refused it: it is to be started again later."""
        return not self.alive and self._refusal is not None and self.has_said(self._refusal)

    def start(self) -> Part:
        """Start it if it does not run, after ending what a killed predecessor has left."""
        if self.alive:
            return self
        sweep(self._tag, seconds=0)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  (our own command)
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # Ctrl-C reaches the fleet only, which ends its parts in order
            )
        self.wanted, self.started = True, time.monotonic()
        return self

    def wait_ready(self, seconds: float) -> Part:
        """Wait until it works, and restart it while it is refused; raise with its last line if it ends."""
        deadline = time.monotonic() + seconds
        while not self._is_ready(self):
            if self.refused and time.monotonic() < deadline:
                if self.age >= REFUSED_SECONDS:
                    self.start()
            elif not self.alive:
                raise SenseCryptError(f"{self.name} ended as it started ({self.last_words()}); read {self.log}")
            if time.monotonic() > deadline:
                raise SenseCryptError(f"{self.name} is not ready after {seconds:.0f} s; read {self.log}")
            time.sleep(_POLL_SECONDS)
        return self

    def has_said(self, text: str) -> bool:
        """Whether its log since the last start contains that text."""
        return text in self._said()

    def last_words(self) -> str:
        """The last line of its log, or its exit code."""
        lines = [line.strip() for line in self._said().splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.exit_code}"

    def signal_end(self) -> None:
        """Send SIGTERM, without waiting; once, because a second one makes Flower end without deregistering."""
        if self._process is not None and self.alive and self.wanted:
            self._process.send_signal(signal.SIGTERM)  # to it alone: it ends its child processes itself
        self.wanted = False

    def end(self, seconds: float = END_SECONDS) -> None:
        """End it and its child processes; kill those that take longer."""
        self.signal_end()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        sweep(self._tag, seconds=_SWEEP_SECONDS)
        self._kill_group()

    def kill(self) -> None:
        """Send SIGKILL to it and to all that it started."""
        self.wanted = False
        self._kill_group()
        sweep(self._tag, seconds=0)

    @property
    def _tag(self) -> str:
        return self._environment[TAG]

    def _kill_group(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:  # never after `wait`: another process may have its number by then
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _said(self) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(self._log_start)
                return log.read().decode(errors="replace")
        except OSError:
            return ""
