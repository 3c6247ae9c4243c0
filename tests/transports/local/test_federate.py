from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sensecrypt import Device, InvalidInput, federate
from sensecrypt.config import make_config
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

EXAMPLES = Path(__file__).parents[3] / "examples"
SETTINGS = {"rounds": 2, "profile": "insecure-test", "workers": 1}


def data(seed: int, classes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor(classes)[torch.randint(len(classes), (40,), generator=generator)]
    return torch.randn(40, 6, generator=generator) + labels[:, None], labels


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(6, 4)


def test_a_users_model_and_loaders_are_trained(tmp_path):
    clients = [data(seed, (0, 1)) for seed in range(3)] + [data(seed, (2, 3)) for seed in range(3, 6)]
    loaders = [DataLoader(TensorDataset(*each), batch_size=16) for each in clients]
    devices = [Device(cpus=cpus, bandwidth=10) for cpus in (8, 4, 2, 8, 4, 2)]
    result = federate(
        model(), loaders, test=data(9, (0, 1, 2, 3)), devices=devices, out=tmp_path / "run", settings=SETTINGS
    )
    trained = result.models()
    assert len(trained) == len(set(result.labels))
    assert not torch.equal(trained[0].weight, model().weight)
    same = federate(
        model(), loaders, test=data(9, (0, 1, 2, 3)), devices=devices, out=tmp_path / "again", settings=SETTINGS
    )
    assert [vector.tobytes() for vector in same.vectors] == [vector.tobytes() for vector in result.vectors]


@pytest.mark.parametrize("device", [{"cpus": 0, "bandwidth": 1}, {"cpus": 1, "bandwidth": 0}])
def test_impossible_devices(device):
    with pytest.raises(InvalidInput):
        Device(**device)


def test_the_plain_loop_gives_the_runs_models(tmp_path):
    spec = importlib.util.spec_from_file_location("plain_loop", EXAMPLES / "plain_loop.py")
    plain_loop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain_loop)
    config = make_config(
        {"clients": 5, "partition": "iid", "rounds": 2, "profile": "insecure-test", "clustering": "none", "workers": 1}
    )
    [model_of_run] = run_local(config, RunFolder(tmp_path / "run")).vectors
    assert np.array_equal(plain_loop.run(config), model_of_run)
    assert len((EXAMPLES / "plain_loop.py").read_text().splitlines()) <= 100
