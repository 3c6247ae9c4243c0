"""The examples in `deploy/`: every command there takes the options that it is given."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def commands() -> dict[str, list[str]]:
    """All of them, by where they stand."""
    found = {}
    for unit in UNITS:
        [line] = re.findall(r"^ExecStart=(.*)$", unit.read_text().replace("\\\n", " "), re.MULTILINE)
        found[unit.name] = shlex.split(line)
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found | {name: shlex.split(service["command"]) for name, service in services.items()}


@functools.cache
def options(*command: str) -> set[str]:
    """What its help names."""
    beside = [str(Path(sys.executable).parent / command[0]), *command[1:]]
    done = subprocess.run([*beside, "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"--[a-z-]+", done.stdout))


def test_there_are_examples_of_every_part():
    assert [unit.name for unit in UNITS] == [
        "flower-superlink.service",
        "flower-supernode@.service",
        "sensecrypt-dkms.service",
    ]
    assert {Path(command[0]).name for command in commands().values()} == {
        "sensecrypt",
        "flower-superlink",
        "flower-supernode",
    }


@pytest.mark.parametrize("where", commands())
def test_commands_know_their_options(where):
    command = commands()[where]
    name = Path(command[0]).name
    known = options("sensecrypt", "dkms", "serve") if name == "sensecrypt" else options(name)
    assert {word for word in command if word.startswith("--")} <= known
    assert "--insecure" not in command
    if "--node-config" in command:
        config = tomllib.loads(command[command.index("--node-config") + 1])
        assert list(config) == ["sensecrypt-identity"]


def test_a_node_never_sees_the_authoritys_key_or_anothers():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        keys = [volume.split(":")[0] for volume in service["volumes"] if ".key" in volume or "node-" in volume]
        assert all(Path(key).stem in (name, name.replace("client", "node"), "aggregator") for key in keys), name
        assert not any(volume.startswith("./pki:") for volume in service["volumes"])
