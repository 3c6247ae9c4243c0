"""Server rules in whole runs, on one machine and on a fleet with a real key service."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.algo.serverupdates import RULES
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local
from tests.transports.flower.conftest import SMALL, dkms, fleet, pki

__all__ = ["dkms", "fleet", "pki"]


@pytest.mark.parametrize("server", sorted(RULES))
def test_every_rule_ends_in_the_same_bytes_on_both_transports_and_for_every_policy(fleet, tmp_path, server):
    settings = {"server": server, "server_learning_rate": 0.5 if server in ("fedavg", "fedavgm") else 0.01, "rounds": 3}
    local = run_local(make_config({**SMALL, **settings}), RunFolder(tmp_path / "local"))
    plain = run_local(make_config({**SMALL, **settings, "policy": "plaintext"}), RunFolder(tmp_path / "plain"))
    assert plain.model_sha256 == local.model_sha256
    assert fleet(**settings).play().model_sha256 == local.model_sha256


def test_rules_differ(tmp_path):
    hashes = [
        run_local(
            make_config({**SMALL, "server": server, "server_learning_rate": 0.1}), RunFolder(tmp_path / server)
        ).model_sha256[0]
        for server in sorted(RULES)
    ]
    assert len(set(hashes)) == len(hashes)


def test_a_resumed_run_remembers_the_rules_state(tmp_path):
    config = make_config({**SMALL, "server": "fedadam", "server_learning_rate": 0.01, "rounds": 3})
    whole = run_local(config, RunFolder(tmp_path / "whole"))

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    with pytest.raises(Stop):
        run_local(config, RunFolder(tmp_path / "cut"), on_round=stop)
    assert run_local(config, RunFolder(tmp_path / "cut"), resume=True).model_sha256 == whole.model_sha256


def test_a_run_that_is_registered_with_another_rule_is_refused(fleet):
    played = fleet()
    played.settings["server"] = "fedavgm"
    with pytest.raises(InvalidInput, match="server"):
        played.play()


def test_rules_are_for_updates():
    with pytest.raises(InvalidInput, match="server"):
        make_config({"uploads": "weights", "server": "fedadam"})


def test_weights_of_models_are_finite_whatever_the_rule(tmp_path):
    result = run_local(make_config({**SMALL, "server": "fedyogi"}), RunFolder(tmp_path / "run"))
    assert all(np.isfinite(vector).all() for vector in result.vectors)
