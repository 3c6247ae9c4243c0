"""`profile = auto`: by computing and by bytes."""

from __future__ import annotations

import json

import pytest

from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.profiles import PROFILES
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation import profilechoice
from sensecrypt.simulation.clock import CostModel
from sensecrypt.simulation.profilechoice import CANDIDATES, choose_profile, resolve_profile
from sensecrypt.transports.local.run import run_local
from sensecrypt.types import Device

COSTS = {  # seconds per ciphertext, as measured on one core
    "paillier-2048": CostModel(7e-4, 3e-6, 4.8e-3),
    "ring-2048": CostModel(4e-5, 8e-6, 3.3e-5),
    "ring-2048x4": CostModel(1.1e-4, 2.2e-5, 9e-5),
    "ring-2048x16": CostModel(6.5e-4, 7.5e-5, 4.3e-4),
}
ALEXNET = 124_534


def chosen(size, *devices, server_cpus=104.0):
    return choose_profile(size, devices, COSTS, server_cpus=server_cpus).profile


def test_a_small_model_on_a_thin_line_takes_paillier_and_a_large_one_the_shortest_ciphertexts():
    thin, usual = Device(cpus=8, bandwidth=0.05), Device(cpus=8, bandwidth=30)
    assert chosen(2_410, thin) == "paillier-2048"
    assert chosen(2_410, Device(cpus=1, bandwidth=1e4)) == "ring-2048"
    assert chosen(ALEXNET, usual) == chosen(ALEXNET, thin) == "ring-2048x16"
    assert chosen(50_890, Device(cpus=0.1, bandwidth=1e6)) == "ring-2048x4"  # bytes cost nothing there


def test_the_slowest_device_decides_and_so_does_a_slow_server():
    fast, thin = Device(cpus=64, bandwidth=1e4), Device(cpus=64, bandwidth=0.05)
    assert chosen(2_410, fast, thin) == "paillier-2048"
    assert chosen(2_410, fast, thin, server_cpus=0.01) != "paillier-2048"  # where decrypting takes 39 times 0.48 s


def test_the_reason_has_every_candidates_seconds_least_first():
    found = choose_profile(ALEXNET, [Device(cpus=8, bandwidth=30)], COSTS, server_cpus=104)
    assert list(found.seconds) == sorted(found.seconds, key=found.seconds.get)
    assert found.why.startswith("ring-2048x16 encrypts, sends, adds and decrypts all 124,534 parameters in the least")
    assert all(name in found.why for name in CANDIDATES)
    ring = PROFILES["ring-2048x16"]
    sent = 3 * ring.ciphertext_bytes + ring.row_bytes(ALEXNET - 3 * ring.slots)
    assert found.seconds["ring-2048x16"] == pytest.approx(4 * 6.5e-4 / 8 + sent / 30e6 + 4 * (7.5e-5 + 4.3e-4) / 104)


@pytest.fixture
def measured(monkeypatch):
    asked = []
    monkeypatch.setattr(profilechoice, "measure_cost_model", lambda name, **_: asked.append(name) or COSTS[name])
    return asked


def test_only_what_goes_with_the_other_settings_is_measured(measured):
    config, why = resolve_profile(make_config({"profile": "auto", "key_mode": "shared-key"}), ALEXNET)
    assert (config.encryption.profile, measured) == ("paillier-2048", ["paillier-2048"])
    assert "ring" not in why
    assert resolve_profile(make_config({"profile": "ring-2048"}), ALEXNET)[1] == ""
    for settings, argument in (
        ({"layout": "individual"}, "layout"),
        ({"weighting": "server", "rest": "plain"}, "weighting"),
    ):
        with pytest.raises(InvalidInput) as error:
            make_config({"profile": "auto", **settings})
        assert error.value.argument == argument


def test_a_run_keeps_what_was_chosen_and_why_and_goes_on_with_it(measured, tmp_path):
    folder = RunFolder(tmp_path / "run")
    settings = {"clients": 4, "partition": "iid", "rounds": 1, "workers": 1, "profile": "auto", "bandwidths": "0.05"}
    summary = run_local(make_config(settings), folder).summary()
    assert summary["profile"] == folder.read_config().encryption.profile == "paillier-2048"
    assert summary["why_profile"] == folder.why_profile
    assert summary["why_profile"].startswith("paillier-2048 encrypts")
    folder.change_config({"rounds": 2})
    assert json.loads((folder.path / "run.json").read_text())["why_profile"] == summary["why_profile"]
    assert run_local(folder.read_config(), folder, resume=True).summary()["why_profile"] == summary["why_profile"]
    assert measured == list(CANDIDATES)
