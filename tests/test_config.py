from __future__ import annotations

from typing import Literal, get_origin

import pytest

from sensecrypt import InvalidInput
from sensecrypt.config import SETTINGS, Rows, RunConfig, make_config, read_config, to_settings
from sensecrypt.profiles import PROFILES


def test_what_is_said_goes_above_the_preset_and_the_preset_above_the_defaults():
    assert make_config({}) == RunConfig()
    paper = make_config({"preset": "paper"})
    assert (
        paper.selection.layout,
        paper.encryption.profile,
        paper.selection.objective,
        paper.groups.sensitivities,
    ) == (
        "individual",
        "paillier-2048-scalar",
        "balance",
        "clear",
    )
    assert make_config({"preset": "paper", "sensitivities": "sketch"}).groups.sensitivities == "sketch"
    assert (make_config({}).encryption.weighting, paper.encryption.weighting) == ("client", "server")


def test_text_is_converted_to_the_keys_type():
    config = make_config({"rounds": "5", "C": "0.5", "cpus": "4,2", "dataset": "mnist"})
    assert (config.training.rounds, config.selection.C, config.machines.cpus, config.problem.dataset) == (
        5,
        0.5,
        ((4.0, 2.0),),
        "mnist",
    )


def test_settings_survive():
    config = make_config({"preset": "paper", "cpus": [1, 2], "rounds": 3})
    assert make_config(to_settings(config)) == config


def test_a_file_is_read_and_the_command_line_goes_above_it(tmp_path):
    (tmp_path / "run.toml").write_text('dataset = "mnist"\nrounds = 7\nbandwidths = [1.0, 2.0]\n')
    config = read_config(tmp_path / "run.toml", {"rounds": "9"})
    assert (config.problem.dataset, config.training.rounds, config.machines.bandwidths) == ("mnist", 9, ((1.0, 2.0),))


def test_an_unknown_key_gets_the_nearest_match():
    with pytest.raises(InvalidInput, match="did you mean 'rounds'"):
        make_config({"round": 3})


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"rounds": 0}, "rounds"),
        ({"rounds": "many"}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"rounds": True}, "rounds"),
        ({"rounds": [1]}, "rounds"),
        ({"clients": -1}, "clients"),
        ({"layout": "scattered"}, "layout"),
        ({"preset": "fast"}, "preset"),
        ({"profile": "rsa"}, "profile"),
        ({"quorum": 0}, "quorum"),
        ({"cpus": "8,0"}, "cpus"),
        ({"cpus": "fast"}, "cpus"),
        ({"cpus": []}, "cpus"),
        ({"layout": "individual"}, "layout"),
        ({"C": 2}, "C"),
        ({"beta": "1"}, "beta"),
        ({"beta": [True, 1]}, "beta"),
        ({"cpus": [True]}, "cpus"),
        ({"bins": 0}, "bins"),
        ({"sensitivity_epsilon": 2}, "sensitivity_epsilon"),
        ({"sensitivity_epsilon": 1e-300}, "sensitivity_epsilon"),
        ({"learning_rate": 1e300}, "learning_rate"),
        ({"ghz": "1e-320"}, "ghz"),
        ({"clip": 0}, "clip"),
        ({"clip": "long"}, "clip"),
        ({"clip": True}, "clip"),
        ({"preset": "paper", "clip": 1}, "clip"),
    ],
)
def test_bad_settings_are_named(settings, argument):
    with pytest.raises(InvalidInput) as error:
        make_config(settings)
    assert error.value.argument == argument


_NUMBERS = [
    *("clients", "rounds", "seed", "ratio", "sensitivity_epsilon", "sensitivity_delta", "sensitivity_clip", "clusters"),
    *("beta", "slack", "grace", "B", "C", "max_mi", "bins", "sensitivity_samples", "order_refresh", "min_contributors"),
    *("quorum", "local_epochs", "batch_size", "learning_rate", "momentum", "workers", "cpus", "bandwidths", "ghz"),
    *("server_cpus", "clip", "sample", "server_learning_rate", "server_momentum", "server_beta2", "server_tau"),
    "statistics",
]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_every_number_is_finite(tmp_path, value):
    kinds = {key: each.kind for key, each in SETTINGS.items()}
    assert set(_NUMBERS) == {
        key for key, kind in kinds.items() if kind not in (str, tuple[str, ...]) and get_origin(kind) is not Literal
    }
    for key in _NUMBERS:
        text = f"1,{value}" if key in ("beta", "cpus") else value
        listed = f"[1.0, {value}]" if key == "beta" else f"[{value}]" if kinds[key] == Rows else value
        (tmp_path / "run.toml").write_text(f"{key} = {listed}\n")
        for path, changes in ((None, {key: text}), (tmp_path / "run.toml", {})):
            with pytest.raises(InvalidInput) as error:
                read_config(path, changes)
            assert error.value.argument == key


def test_an_error_is_one_line_whatever_was_written():
    for settings in ({"rounds": "9" * 5000}, {"rounds": "1\n2"}, {"layout": "a\nb" * 1000}):
        with pytest.raises(InvalidInput) as error:
            make_config(settings)
        assert len(str(error.value)) < 200
        assert str(error.value).isprintable()


def test_every_setting_has_a_sentence():
    """What a setting does is told where it is defined."""
    assert len(SETTINGS) == 62
    assert [key for key, each in SETTINGS.items() if not each.meaning] == []


def test_bad_files_are_one_clear_error(tmp_path):
    (tmp_path / "bad.toml").write_text("rounds = = 3")
    for path in (tmp_path / "bad.toml", tmp_path / "none.toml"):
        with pytest.raises(InvalidInput):
            read_config(path, {})


def test_the_rest_is_blinded_wherever_somebody_can_unblind_it():
    assert make_config({}).encryption.blinded
    assert not make_config({"preset": "paper"}).encryption.blinded
    shared = {"key_mode": "shared-key", "profile": "paillier-2048"}
    assert not make_config(shared).encryption.blinded
    assert not make_config({"policy": "plaintext"}).encryption.blinded
    assert make_config({"policy": "plaintext", "rest": "blinded"}).encryption.blinded
    assert make_config({"preset": "paper", "key_mode": "dkms", "rest": "blinded"}).encryption.blinded
    with pytest.raises(InvalidInput, match="without a key server"):
        make_config({**shared, "rest": "blinded"})


@pytest.mark.parametrize("profile", [each.name for each in PROFILES.values() if each.forgeries_show_key])
def test_clients_share_no_key_that_forged_sums_would_show(profile):
    for settings in ({}, {"preset": "paper", "layout": "blocks"}):
        with pytest.raises(InvalidInput, match=f"a forged sum reveals the secret key of {profile}") as error:
            make_config({**settings, "key_mode": "shared-key", "profile": profile})
        assert error.value.argument == "key_mode"
    assert profile.startswith(("ring", "ckks"))


@pytest.mark.parametrize(
    "settings",
    [
        {"rest": "blinded", "key_mode": "dkms"},
        {"profile": "ckks-8192", "layout": "blocks", "key_mode": "dkms"},
        {"profile": "paillier-2048", "layout": "blocks"},
    ],
)
def test_the_server_weighs_only_what_it_can_multiply(settings):
    assert make_config({"preset": "paper", **settings}).encryption.weighting == "client"
    with pytest.raises(InvalidInput, match="paillier-2048-slot64 and rest plain, or weighting client") as error:
        make_config({"preset": "paper", "weighting": "server", **settings})
    assert error.value.argument == "weighting"


def test_the_server_can_weigh_with_the_key_shared_or_not():
    for key_mode in ("dkms", "shared-key"):
        assert make_config({"preset": "paper", "key_mode": key_mode}).encryption.weighting == "server"
