"""Rules of a key service on one machine: too few clients are refused, and weights outside its limits are told."""

from __future__ import annotations

import logging

import pytest
from click.testing import CliRunner
from sensecrypt.engines.keyring import make_keys
from sensecrypt.engines.limits import warn_of_weights

from sensecrypt.cli import main
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

SMALL = {"partition": "iid", "rounds": 1, "profile": "insecure-test", "workers": 1, "clustering": "none"}


def test_three_contributors_are_the_default():
    assert make_config({}).min_contributors == 3


def test_fewer_clients_than_min_contributors_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"is 3, and the run has 2 client\(s\): no sum would be decrypted") as error:
        run_local(make_config({**SMALL, "clients": 2}), RunFolder(tmp_path / "run"))
    assert error.value.argument == "min_contributors"
    assert not (tmp_path / "run").exists()
    make_keys(make_config({**SMALL, "clients": 2, "key_mode": "shared-key"}))
    make_keys(make_config({**SMALL, "clients": 2, "min_contributors": 2}))


def test_the_command_says_so_in_one_line(tmp_path):
    settings = [f"--set={key}={value}" for key, value in {**SMALL, "clients": 2}.items()]
    result = CliRunner().invoke(main, ["run", "--out", str(tmp_path / "run"), *settings])
    assert result.exit_code == 2
    assert "min_contributors: is 3, and the run has 2 client(s)" in result.output.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ((0.8, 0.15, 0.05), "one client is 94.1% of the sum"),
        ((0.45, 0.35, *[0.02] * 10), "outweighs"),
        ((0.01, 0.29, 0.35, 0.35), "35 times"),
    ],
)
def test_weights_outside_the_limits_are_one_warning(caplog, weights, reason):
    warn_of_weights(make_config(SMALL), [dict(enumerate(weights)), dict.fromkeys(range(4), 0.25)])
    [record] = caplog.records
    assert record.getMessage().startswith("weights of 1 of 2 cluster(s) are outside a key service's limits")
    assert reason in record.getMessage()


def test_weights_within_the_limits_and_shared_keys_are_no_warning(caplog):
    warn_of_weights(make_config(SMALL), [{0: 0.4, 1: 0.3, 2: 0.3}])
    warn_of_weights(make_config({**SMALL, "key_mode": "shared-key"}), [{0: 0.9, 1: 0.05, 2: 0.05}])
    assert not caplog.records


def test_a_local_run_looks_at_its_weights(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("sensecrypt.engines.limits.LARGEST_WEIGHT", 0.5)
    monkeypatch.setattr("sensecrypt.engines.limits.COLLUDERS", 2)
    caplog.set_level(logging.WARNING, "sensecrypt.run")
    run_local(make_config({**SMALL, "clients": 3}), RunFolder(tmp_path / "run"))
    assert "weights of 1 of 1 cluster(s)" in caplog.text
