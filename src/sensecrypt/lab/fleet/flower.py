"""The `flwr` command of a fleet: its answers as values, its errors as ours."""

from __future__ import annotations

import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

from sensecrypt.errors import SenseCryptError, Unreachable
from sensecrypt.lab.fleet.commands import flower_command, flower_environment
from sensecrypt.lab.fleet.folder import FleetFolder

_SECONDS = 120.0
_KNOWN_KEY, _UNKNOWN_RUN = "already in use", "Run ID not found"


def submit_app(folder: FleetFolder, app: Path) -> str:
    """Start a Flower run of the app; the run's number."""
    answer = _ask(folder, "run", str(app), "deploy")
    return str(answer["run-id"])


def run_status(folder: FleetFolder, number: str) -> tuple[str, str]:
    """Flower's status of a run, such as `pending`, `running` or `finished:completed`, and details."""
    try:
        runs = _ask(folder, "list", "deploy", "--run-id", number)["runs"]
    except SenseCryptError as error:
        if _UNKNOWN_RUN in str(error):
            return "finished:forgotten", "SuperLink has lost its state"
        raise
    return str(runs[0]["status"]), str(runs[0].get("status-details", ""))


def stop_run(folder: FleetFolder, number: str) -> None:
    """End a run of Flower's."""
    _ask(folder, "stop", number, "deploy")


def register_node(folder: FleetFolder, public_key: Path) -> None:
    """Register a SuperNode's key with SuperLink, if it is not registered yet."""
    try:
        _ask(folder, "supernode", "register", str(public_key), "deploy")
    except SenseCryptError as error:
        if _KNOWN_KEY not in str(error):
            raise


def count_online(folder: FleetFolder) -> int:
    """The number of SuperNodes that SuperLink reports as online."""
    nodes = _ask(folder, "supernode", "list", "deploy")["nodes"]
    return sum(node["status"] == "online" for node in nodes)


def answers(address: str, authority: Path | None) -> bool:
    """Whether SuperLink answers at its address."""
    import httpx

    verify = ssl.create_default_context(cafile=str(authority)) if authority is not None else True
    scheme = "http" if authority is None else "https"
    try:
        return httpx.get(f"{scheme}://{address}/health", verify=verify, timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False


def run_log(folder: FleetFolder, number: str) -> str:
    """The log of a run's ServerApp, which Flower keeps beside SuperLink's log."""
    done = _call(folder, "log", number, "deploy", "--show")
    if done.returncode:
        raise SenseCryptError(f"flwr log: exit code {done.returncode}; read {folder.log('superlink')}")
    return done.stdout


def _ask(folder: FleetFolder, *arguments: str) -> dict[str, Any]:
    done = _call(folder, *arguments, "--format", "json")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("success"):
        return answer
    message = answer.get("error-message") if isinstance(answer, dict) else done.stderr or done.stdout
    reason = " ".join(str(message).split()) or f"exit code {done.returncode}"
    raise SenseCryptError(f"flwr {arguments[0]}: {reason}; read {folder.log('superlink')}")


def _call(folder: FleetFolder, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [flower_command("flwr"), *arguments]
    environment = {**flower_environment(folder.flower_home), "NO_COLOR": "1"}
    try:
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_SECONDS)  # noqa: S603  (ours)
    except subprocess.TimeoutExpired:
        raise Unreachable("SuperLink", "does not answer in time", f"read {folder.log('superlink')}") from None
