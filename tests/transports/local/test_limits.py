"""Rules of a key service on one machine: too few clients are refused, and weights are moved as its rules want it."""

from __future__ import annotations

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from sensecrypt.cli import main
from sensecrypt.client.problem import own_problem
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.protocol.envelope import parse_any
from sensecrypt.protocol.releaserules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT, ReleaseRules
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.keys import make_keys, release_rules
from sensecrypt.transports.local.run import run_local

SMALL = {"partition": "iid", "rounds": 1, "profile": "insecure-test", "workers": 1, "clustering": "none"}


def test_three_contributors_are_the_default():
    assert make_config({}).release.min_contributors == 3


def test_fewer_clients_than_min_contributors_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"is 3, but the run has 2 client\(s\): no sum would be decrypted") as error:
        run_local(make_config({**SMALL, "clients": 2}), RunFolder(tmp_path / "run"))
    assert error.value.argument == "min_contributors"
    assert not (tmp_path / "run").exists()
    make_keys(make_config({**SMALL, "clients": 2, "key_mode": "shared-key"}), None)
    make_keys(make_config({**SMALL, "clients": 2, "min_contributors": 2}), None)


def test_the_command_says_so_in_one_line(tmp_path):
    settings = [f"--set={key}={value}" for key, value in {**SMALL, "clients": 2}.items()]
    result = CliRunner().invoke(main, ["run", "--out", str(tmp_path / "run"), *settings])
    assert result.exit_code == 2
    assert "min_contributors: is 3, but the run has 2 client(s)" in result.output.strip().splitlines()[-1]


UNEVEN = [(80, 15, 5), (450, 350, *[20] * 10), (1, 29, 35, 35), (1000, 1, 1, 1)]


@pytest.mark.parametrize("samples", UNEVEN, ids=str)
def test_weights_of_uneven_clients_are_moved_as_at_a_key_service(samples):
    """Weights by samples alone would be refused; those of the run are not, and are what a fleet's would be."""
    rules = release_rules(make_config(SMALL))
    counts, total = dict(enumerate(samples)), sum(samples)
    by_samples = {client: own / total for client, own in counts.items()}
    assert not rules.allow(by_samples, by_samples)
    weights = rules.weights(counts)
    rules.check(weights, weights)
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights == ReleaseRules(3, 0.5, LARGEST_WEIGHT, LARGEST_RATIO, COLLUDERS).weights(counts)


def test_weights_within_the_limits_and_of_shared_keys_are_by_samples():
    assert release_rules(make_config(SMALL)).weights({0: 4, 1: 3, 2: 3}) == pytest.approx({0: 0.4, 1: 0.3, 2: 0.3})
    shared = release_rules(make_config({**SMALL, "key_mode": "shared-key"}))
    assert shared.weights({0: 90, 1: 5, 2: 5}) == pytest.approx({0: 0.9, 1: 0.05, 2: 0.05})


def test_the_run_on_one_machine_is_weighed_by_the_rules(tmp_path):
    """One client has nearly all samples: the cluster's model is the sum by the weights of the rules."""
    sizes = (400, 20, 10, 10)
    problem = own_problem(nn.Linear(6, 2), [_data(seed, size) for seed, size in enumerate(sizes)], _data(9, 50))
    settings = {**SMALL, "dataset": "own", "clients": 4, "messages": "keep", "uploads": "weights", "policy": "full"}
    folder = RunFolder(tmp_path / "run")
    config = make_config(settings)
    [model] = run_local(config, folder, problem=problem).vectors
    sent = [parse_any(folder.message(0, f"own-{client}"), "own")[1]["sent"] for client in range(4)]
    weights = release_rules(config).weights(dict(enumerate(sizes)))
    assert weights[0] < 0.75
    assert model == pytest.approx(sum(weights[client] * each for client, each in enumerate(sent)), abs=1e-5)


def _data(seed: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (size,), generator=generator)
    return torch.randn(size, 6, generator=generator) + labels[:, None], labels


@pytest.mark.parametrize("samples", [*UNEVEN, (4, 3, 3), (50, 49, 51, 50)], ids=str)
def test_where_the_server_weighs_factors_are_in_proportion_and_keep_the_rules(samples):
    rules, counts = release_rules(make_config(SMALL)), dict(enumerate(samples))
    weights, factors = rules.shares(counts, whole=True)
    rules.check(weights, weights)
    assert sum(weights.values()) == pytest.approx(1.0)
    assert {client: own / sum(factors.values()) for client, own in factors.items()} == pytest.approx(weights)
    if samples not in UNEVEN:
        assert factors == counts


@pytest.mark.parametrize("key_mode", ["dkms", "shared-key"])
def test_uneven_clients_are_weighed_by_the_server_too(tmp_path, key_mode):
    sizes = (80, 15, 10, 10)
    problem = own_problem(nn.Linear(6, 2), [_data(seed, size) for seed, size in enumerate(sizes)], _data(9, 50))
    more = {"dataset": "own", "clients": 4, "messages": "keep", "uploads": "weights", "policy": "full"}
    server = {"weighting": "server", "profile": "paillier-2048-slot64", "rest": "plain", "key_mode": key_mode}
    folder, config = RunFolder(tmp_path / "run"), make_config({**SMALL, **more, **server})
    [model] = run_local(config, folder, problem=problem).vectors
    sent = [parse_any(folder.message(0, f"own-{client}"), "own")[1]["sent"] for client in range(4)]
    weights, _ = release_rules(config).shares(dict(enumerate(sizes)), whole=True)
    assert (weights[0] < 0.6) == (key_mode == "dkms")
    assert model == pytest.approx(sum(weights[client] * each for client, each in enumerate(sent)), abs=1e-5)
