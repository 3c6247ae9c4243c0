"""A real fleet: SuperLink, two SuperNodes and the key service as processes, TLS everywhere, real keys."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from sensecrypt.config import make_config
from sensecrypt.lab.fleet import making, ports
from sensecrypt.lab.fleet.fleet import Fleet
from sensecrypt.lab.fleet.folder import Description, FleetFolder
from sensecrypt.lab.fleet.part import Part
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

SETTINGS = {
    "dataset": "digits",
    "clients": 2,
    "partition": "iid",
    "clustering": "none",
    "rounds": 1,
    "min_contributors": 2,
}


@pytest.mark.slow
def test_a_fleet_with_tls_gives_the_model_of_one_machine(tmp_path):
    config = make_config(SETTINGS)
    making.make_fleet(FleetFolder(tmp_path / "fleet"), description := Description(2, True))
    making.write_addresses(FleetFolder(tmp_path / "fleet"), description)
    for member in description.members:
        with FleetFolder(tmp_path / "fleet").identity(member).open("a") as identity:
            identity.write('batches = "seeded"\n')
    with Fleet(tmp_path / "fleet") as fleet:
        run = fleet.submit(config, run="smoke", deadline=60, enrol_seconds=90).wait(170)
        outcome = run.outcome()
        assert stranger(fleet).exit_code == 1
        assert "No SuperNode found with the given public key" in fleet.folder.log("superlink").read_text()
    local = run_local(config, RunFolder(tmp_path / "local"))
    assert outcome.model_sha256 == local.model_sha256
    assert outcome.accuracy == local.accuracy
    assert [record.encrypted_share for record in outcome.played] == [1.0, 1.0]
    audit = [sys.executable, "-m", "sensecrypt", "dkms", "audit", "--folder", fleet.folder.dkms, "--json"]
    told = subprocess.run(audit, capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["lines"] > 10


def stranger(fleet: Fleet) -> Part:
    """A SuperNode whose key nobody registered, after it was refused."""
    making._make_node_key(fleet.folder.node_key("node-9"))
    command = [part.replace("node-keys/node-0", "node-keys/node-9") for part in fleet.part("node-0")._command]
    port = str(ports.find_ports(1))
    command = [port if before == "--port" else part for before, part in zip(["", *command], command, strict=False)]
    part = Part(
        "stranger", command, fleet.part("node-0")._environment, fleet.folder.log("stranger"), is_ready=has_ended
    )
    part.start()
    for _ in range(600):
        if not part.alive:
            break
        time.sleep(0.1)
    part.end()
    return part


def has_ended(part: Part) -> bool:
    return not part.alive
