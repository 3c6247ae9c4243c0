"""A real fleet: SuperLink, two SuperNodes and the key service as processes, TLS everywhere, real keys."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from sensecrypt.config import make_config
from sensecrypt.engines.local import run_local
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.fleet.fleet import Fleet

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
    with Fleet(tmp_path / "fleet", clients=2, tls=True) as fleet:
        run = fleet.submit(config, run="smoke", deadline=60, enrol_seconds=90).wait(170)
        outcome = run.outcome()
    local = run_local(config, RunFolder(tmp_path / "local"))
    assert outcome.model_sha256 == local.model_sha256
    assert outcome.accuracy == local.accuracy
    assert [record["encrypted_share"] for record in outcome.played] == [1.0, 1.0]
    audit = [sys.executable, "-m", "sensecrypt", "dkms", "audit", "--folder", fleet.folder.dkms, "--json"]
    told = subprocess.run(audit, capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["lines"] > 10
