"""Command lines and environments of the parts of a fleet."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sensecrypt.errors import MissingExtra, ServiceError
from sensecrypt.lab.fleet.folder import AGGREGATOR, HOST, Description, FleetFolder

TAG = "SENSECRYPT_FLEET_PART"
IDENTITY = "sensecrypt-identity"  # in a SuperNode's configuration: the path of its identity file
AGGREGATOR_VARIABLE = "SENSECRYPT_AGGREGATOR"  # in SuperLink's environment, which ServerApps inherit
_BESIDE = Path(sys.executable).parent
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # else SuperLink asks a package index before each run
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",  # seconds until a message's process starts, at most; Flower: 1
    "FLWR_LOG_LEVEL": "INFO",  # for the line that reports a node as online
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}


def command_of(name: str, folder: FleetFolder, description: Description) -> list[str]:
    """The command line of the part of that name."""
    port = ["--host", HOST, "--port", str(description.ports[name])]
    if name == "dkms":
        return [*_dkms(folder), *port]
    if name == "superlink":
        return [*_superlink(folder, description), *port]
    return [*_supernode(name, folder, description), *port]


def environment_of(name: str, folder: FleetFolder) -> dict[str, str]:
    """A part's environment: this process's with what Flower and SenseCrypt need."""
    home = folder.node_home(name) if name.startswith("node-") else folder.flower_home
    environment = {**flower_environment(home), TAG: tag(name, folder)}
    if name == "superlink":
        environment[AGGREGATOR_VARIABLE] = str(folder.identity(AGGREGATOR))
    return environment


def flower_environment(home: Path) -> dict[str, str]:
    """The environment of Flower's commands, which look for each other in PATH."""
    path = os.pathsep.join([str(_BESIDE), os.environ.get("PATH", os.defpath)])
    return {"OMP_NUM_THREADS": "1", **os.environ, **_QUIET, "FLWR_HOME": str(home), "PATH": path}


def flower_command(name: str) -> str:
    """The path of one of Flower's commands, beside this Python."""
    command = _BESIDE / name
    if not command.is_file():
        raise MissingExtra("a fleet", "dkms", "flower", "torch")
    return str(command)


def tag(name: str, folder: FleetFolder) -> str:
    """The mark of a part's processes and of those that they start."""
    return f"{folder.path}#{name}"


def node_config(identity: Path) -> str:
    """A SuperNode's configuration, in quotes that the path does not contain: Flower accepts no escapes."""
    text = str(identity)
    literal = "'" not in text
    if not text.isprintable() or not (literal or not set(text) & {'"', "\\"}):
        raise ServiceError(text, "cannot be written in a SuperNode's configuration", "choose a folder without quotes")
    return f"{IDENTITY}='{text}'" if literal else f'{IDENTITY}="{text}"'


def _dkms(folder: FleetFolder) -> list[str]:
    certificate, key, authority = folder.certificate("dkms")
    options = {
        "--folder": folder.dkms,
        "--certificate": certificate,
        "--key": key,
        "--ca": authority,
        "--passphrase-file": folder.passphrase,
    }
    return [
        sys.executable,
        "-m",
        "sensecrypt",
        "dkms",
        "serve",
        *(str(each) for pair in options.items() for each in pair),
    ]


def _superlink(folder: FleetFolder, description: Description) -> list[str]:
    command = [flower_command("flower-superlink"), "--database", str(folder.database)]
    command.append("--disable-runtime-dependency-installation")
    if not description.tls:
        return [*command, "--insecure"]
    certificate, key, authority = (str(path) for path in folder.certificate("superlink"))
    command += ["--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certfile", authority]
    return [*command, "--enable-supernode-auth"]


def _supernode(name: str, folder: FleetFolder, description: Description) -> list[str]:
    identity = folder.identity(name.replace("node-", "client-"))
    command = [sys.executable, "-m", "sensecrypt.lab.fleet.supernode", "--superlink", description.superlink]
    part = f"partition-id={name.removeprefix('node-')} num-partitions={description.clients}"
    command += ["--node-config", f"{node_config(identity)} {part}"]
    if not description.tls:
        return [*command, "--insecure"]
    trust = ["--root-certificates", str(folder.pki / "ca.crt")]
    return [*command, *trust, "--auth-supernode-private-key", str(folder.node_key(name))]
