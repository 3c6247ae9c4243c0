"""Client sampling: how many, by which randomness, and that runs work with it."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.config import make_config
from sensecrypt.coordinator.coordination import sample_members
from sensecrypt.errors import InvalidInput
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local
from tests.transports.flower.conftest import dkms, fleet, pki

__all__ = ["dkms", "fleet", "pki"]

SMALL = {
    "dataset": "digits",
    "clients": 10,
    "partition": "iid",
    "clustering": "none",
    "rounds": 4,
    "order_refresh": 2,
    "profile": "insecure-test",
    "budget": "paper",
    "workers": 1,
}


def drawn(sample: float, least: int = 3, seed: int = 0) -> list[int]:
    return sample_members(range(20), sample, least, rng=np.random.default_rng(seed))


@pytest.mark.parametrize(("sample", "many"), [(0, 20), (0.25, 5), (0.01, 3), (7, 7), (1, 3), (100, 20), (0.21, 5)])
def test_as_many_as_asked_for_and_never_fewer_than_a_sum_needs(sample, many):
    members = drawn(sample)
    assert len(set(members)) == len(members) == many
    assert members == sorted(members)


def test_samples_follow_the_generator():
    assert drawn(5, seed=1) == drawn(5, seed=1)
    assert len({tuple(drawn(5, seed=seed)) for seed in range(20)}) > 10


def test_a_number_of_clients_is_whole():
    with pytest.raises(InvalidInput, match="sample"):
        drawn(2.5)


@pytest.mark.parametrize("policy", ["sensecrypt", "maskcrypt", "plaintext"])
def test_rounds_have_the_sampled_members_and_models_do_not_depend_on_workers(tmp_path, policy):
    runs = [
        run_local(
            make_config({**SMALL, "policy": policy, "sample": 4, "workers": workers}),
            RunFolder(tmp_path / str(workers)),
        )
        for workers in (1, 2)
    ]
    assert runs[0].model_sha256 == runs[1].model_sha256
    by_round = [{each.client for each in runs[0].played if each.round == number} for number in range(4)]
    assert [len(each) for each in by_round] == [4] * 4
    assert len(set.union(*by_round)) > 4


def test_all_policies_end_in_one_model_with_sampling(tmp_path):
    hashes = {
        policy: run_local(make_config({**SMALL, "policy": policy, "sample": 0.4}), RunFolder(tmp_path / policy))
        for policy in ("sensecrypt", "plaintext", "full", "maskcrypt", "fedml_he")
    }
    assert len({tuple(each.model_sha256) for each in hashes.values()}) == 1


def test_a_resumed_run_samples_the_same_clients(tmp_path):
    config = make_config({**SMALL, "sample": 4})
    whole = run_local(config, RunFolder(tmp_path / "whole"))

    class Stop(Exception):
        pass

    def stop(number, *_):
        if number == 1:
            raise Stop

    with pytest.raises(Stop):
        run_local(config, RunFolder(tmp_path / "cut"), on_round=stop)
    assert run_local(config, RunFolder(tmp_path / "cut"), resume=True).model_sha256 == whole.model_sha256


def test_a_fleet_samples_and_members_start_from_rounds_that_they_were_not_in(fleet):
    played = fleet(clients=7, rounds=5, sample=3, min_contributors=3, order_refresh=2)
    outcome = played.play()
    by_round = [{each.client for each in outcome.played if each.round == number} for number in range(5)]
    assert [len(each) for each in by_round] == [3] * 5
    assert len(set.union(*by_round)) > 3
