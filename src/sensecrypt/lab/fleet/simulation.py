"""`flwr run` with a SuperLink that ends with the run; the one that Flower starts itself stays for later runs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from sensecrypt.errors import SenseCryptError
from sensecrypt.lab.fleet.commands import flower_command, flower_environment
from sensecrypt.lab.fleet.flower import answers
from sensecrypt.lab.fleet.ports import find_ports

_READY_SECONDS, _END_SECONDS = 60.0, 20.0


def simulate(app: Path, home: Path, *, clients: int, settings: str = "", seconds: float = 1800.0) -> str:
    """The output of `flwr run APP`, to its end, with that many simulated clients.

    Args:
        app: the app's folder.
        home: an empty folder for Flower's files.
        clients: the number of simulated clients, with one processor each.
        settings: of the run, as `--run-config` takes them.
        seconds: the time limit.
    """
    with _superlink(home) as address:
        options = f"options.num-supernodes = {clients}\noptions.backend.client-resources.num-cpus = 1\n"
        text = f'[superlink]\ndefault = "own"\n\n[superlink.own]\naddress = "{address}"\ninsecure = true\n{options}'
        (home / "config.toml").write_text(text, encoding="utf-8")
        command = [flower_command("flwr"), "run", str(app), "--stream", *(["-c", settings] if settings else [])]
        environment = flower_environment(home)
        done = subprocess.run(  # noqa: S603  (our own command)
            command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        return done.stdout + done.stderr


@contextlib.contextmanager
def _superlink(home: Path) -> Iterator[str]:
    home.mkdir(parents=True, exist_ok=True)
    first = find_ports(2)
    address = f"127.0.0.1:{first}"
    command = [flower_command("flower-superlink"), "--insecure", "--simulation", "--isolation", "subprocess"]
    command += ["--control-api-address", f"127.0.0.1:{first + 1}", "--host", "127.0.0.1", "--port", str(first)]
    with (home / "superlink.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  (our own command)
            command, env=flower_environment(home), stdout=log, stderr=log, cwd=home, start_new_session=True
        )
    try:
        end = time.monotonic() + _READY_SECONDS
        while not answers(address, None):
            if process.poll() is not None or time.monotonic() > end:
                raise SenseCryptError(f"SuperLink does not start; read {home / 'superlink.log'}")
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
