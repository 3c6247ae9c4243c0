"""The example of a Flower app: its parts fit each other, and what its README tells the key service is true."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import torch
from flwr.clientapp import ClientApp
from flwr.common.config import flatten_dict, validate_config
from flwr.serverapp import ServerApp
from torch import nn

from sensecrypt.client.problem import always_of
from sensecrypt.lab.fleet.registration import ranges
from sensecrypt.models import get_vector
from sensecrypt.transports.flower.settings import read_settings

FOLDER = Path(__file__).parents[2] / "examples" / "flower-app"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def client() -> ModuleType:
    return load("client_app")


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((FOLDER / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def config(project):
    return read_settings(flatten_dict(project["tool"]["flwr"]["app"]["config"])).config


def test_flower_takes_the_project(project):
    valid, errors, _ = validate_config(project, check_module=False)
    assert valid, errors


def test_both_apps_are_flower_s(client):
    assert isinstance(client.app, ClientApp)
    assert isinstance(load("server_app").app, ServerApp)


def test_the_readme_registers_the_model_that_is_trained(client, config):
    told = (FOLDER / "README.md").read_text()
    share = client.load(config, 0)
    model = share.build()
    assert int(re.search(r"--size (\d+)", told)[1]) == get_vector(model).size
    [(start, stop)] = ranges(always_of(config, model, share.classes))
    assert re.search(r"--first (\d+):(\d+)", told).groups() == (str(start), str(stop))
    assert told.count("--member client-") == config.problem.clients
    assert f"--min-contributors {config.release.min_contributors}" in told
    assert f"--profile {config.encryption.profile}" in told


def test_clients_share_no_sample_and_training_learns(client, config):
    shares = [client.load(config, number) for number in range(config.problem.clients)]
    assert sum(len(share.data[1]) for share in shares) == 1500
    inputs, labels = shares[0].data
    model = client.build()
    before = nn.functional.cross_entropy(model(inputs), labels)
    for number in range(config.training.rounds):
        client.fit(model, (inputs, labels), number)
    assert nn.functional.cross_entropy(model(inputs), labels) < before / 2
    assert torch.equal(client.build()[0].weight, client.build()[0].weight)
