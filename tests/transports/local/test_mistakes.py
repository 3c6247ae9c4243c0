"""What users get wrong: one sentence that names the argument or the client and the fix; nothing is written."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from sensecrypt import Device, InvalidInput, SenseCryptError, federate

SETTINGS = {"profile": "insecure-test", "workers": 1, "clustering": "none", "rounds": 1}


def pair(seed: int = 0, many: int = 12, width: int = 6, classes: int = 4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(many, width, generator=generator), torch.arange(many) % classes


def net(*more: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), *more, nn.Linear(8, 4))


def three(third=None):
    return [pair(0), pair(1), pair(2) if third is None else third]


def with_nan():
    x, y = pair(2)
    x[3, 1] = float("nan")
    return x, y


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x):
        return self.forward(x)


class Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(6, 4, dtype=torch.complex64))


class Toggled(nn.Module):
    """A truth value in its state that training changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)
        self.register_buffer("seen", torch.zeros(1, dtype=torch.bool))

    def forward(self, x):
        self.seen.logical_not_()
        return self.layer(x)


class NoItems(Dataset):
    def __len__(self) -> int:
        return 0

    def __getitem__(self, index):
        raise IndexError(index)


def embedding() -> nn.Module:
    return nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(24, 4))


def tokens(high: int):
    return torch.randint(high, (12, 6), generator=torch.Generator().manual_seed(0)), torch.arange(12) % 4


CASES = {
    "labels above": ({"clients": three((pair(2)[0], pair(2)[1] + 5))}, r"clients\[2\]: has labels 5 … 8, .*0 … 3"),
    "labels below": ({"clients": three((pair(2)[0], pair(2)[1] - 1))}, r"clients\[2\]: has labels -1 … 2"),
    "other labels first": ({"clients": [(pair(2)[0], pair(2)[1] + 5)] * 3}, r"clients\[0\]: has labels 5 … 8"),
    "width of one": (
        {"clients": three(pair(2, width=5))},
        r"clients\[2\]: has samples of 0 \(5,\) float32.*first client",
    ),
    "width of all": ({"clients": [pair(width=5)] * 3}, r"clients\[0\]: .* layer 0 \(Linear\) .*\(8, 5\).*\(8, 6\)"),
    "unlike lengths": (
        {"clients": three((torch.zeros(3, 6), torch.zeros(2, dtype=torch.int64)))},
        r"clients\[2\]: .*row",
    ),
    "float labels": (
        {"clients": three((torch.zeros(3, 6), torch.zeros(3)))},
        r"clients\[2\]: has .*float32.*same form",
    ),
    "all labels float": ({"clients": [(torch.zeros(3, 6), torch.zeros(3))] * 3}, "loss: is not given.*MSELoss"),
    "NaN": ({"clients": three(with_nan())}, r"clients\[2\]: has NaN or infinite values in 1 of 12 samples"),
    "NaN in a loader": ({"clients": three(DataLoader(TensorDataset(*with_nan()), 4))}, r"clients\[2\]: has NaN"),
    "empty tensors": (
        {"clients": three((torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64)))},
        r"clients\[2\]: .*no samples",
    ),
    "empty data set": ({"clients": three(NoItems())}, r"clients\[2\]: has no samples"),
    "an iterator": ({"clients": three(iter([pair()]))}, r"clients\[2\]: is an iterator"),
    "a number": ({"clients": three(5)}, r"clients\[2\]: is a int"),
    "no clients": ({"clients": []}, "clients: is empty"),
    "one data set": ({"clients": TensorDataset(*pair())}, "clients: is a TensorDataset; pass a list"),
    "test without overlap": (
        {"clients": [(x, y % 2) for x, y in three()], "test": (pair()[0], pair()[1] % 2 + 2)},
        "test: has labels 2, 3",
    ),
    "test of other width": ({"test": pair(width=5)}, r"test: has samples of 0 \(5,\)"),
    "no module": ({"model": lambda x: x}, "model: is a function, not a torch.nn.Module"),
    "a class": ({"model": nn.Identity}, "model: is the class Identity"),
    "recursion": ({"model": Recursive()}, r"clients\[0\]: causes endless recursion"),
    "complex weights": ({"model": Half()}, "model: has weight of type torch.complex64"),
    "a truth value that changes": ({"model": Toggled()}, "model: changes seen in training"),
    "lazy weights": ({"model": nn.Sequential(nn.LazyLinear(4))}, r"model: has no values in 0\.weight yet"),
    "nothing to train": ({"model": net().requires_grad_(requires_grad=False)}, "model: has no trainable"),
    "few embeddings": (
        {"model": embedding(), "clients": [tokens(9)] * 3},
        r"clients\[0\]: has number 8, .*5 embeddings",
    ),
    "devices": ({"devices": [3, 3, 3]}, r"devices\[0\]: is a int; pass a sensecrypt\.Device"),
    "few devices": ({"devices": [Device(1, 1)]}, "devices: has 1 elements, but there are 3 clients"),
    "few weights": ({"weights": [1, 2]}, "weights: has 2 elements, but there are 3 clients"),
    "clients in settings": ({"settings": {**SETTINGS, "clients": 7}}, "settings: has clients, which is an argument"),
    "model in settings": ({"settings": {**SETTINGS, "model": "mlp"}}, "settings: has model"),
    "rate and optimiser": (
        {"settings": {**SETTINGS, "learning_rate": 1}, "optimizer": torch.optim.Adam},
        "settings: has learning_rate, which optimizer replaces",
    ),
    "unknown setting": ({"settings": {**SETTINGS, "round": 3}}, "round"),
    "an optimiser": ({"optimizer": torch.optim.SGD(net().parameters(), 0.1)}, "optimizer: belongs to one model"),
    "fit and optimiser": ({"fit": print, "optimizer": torch.optim.SGD}, "optimizer: has no effect with fit"),
    "a loss per sample": ({"loss": lambda out, batch: out.sum(1)}, r"loss: has shape \(8,\)"),
    "a detached loss": ({"loss": lambda out, batch: out.detach().sum()}, "loss: does not depend on"),
    "no such device": ({"device": "tpu"}, "device: is 'tpu'"),
    "resume nowhere": ({"resume": True, "out": None}, "resume: .*pass out="),
    "rule": ({"server": "fedsgd"}, "server: is 'fedsgd'"),
}


@pytest.mark.parametrize("name", CASES)
def test_is_named_and_leaves_nothing(tmp_path, name):
    changes, told = CASES[name]
    arguments = {"model": None, "clients": three(), "settings": SETTINGS, "out": tmp_path / "run", **changes}
    model = arguments.pop("model") or net()
    before = torch.get_num_threads()
    with warnings.catch_warnings(), pytest.raises(InvalidInput) as error:
        federate(model, arguments.pop("clients"), **arguments)
    assert re.search(told, str(error.value)), str(error.value)
    assert "\n" not in str(error.value)
    assert "mat1" not in str(error.value)
    assert not (tmp_path / "run").exists()
    assert torch.get_num_threads() == before


def diverging(client: int):
    """A client whose training gives infinite weights in the second round."""

    def fit(model, data, number):
        with torch.no_grad():
            model[0].weight += 0.01
            if data[0] is CLIENTS[client][0] and number == 1:
                model[1].bias[2] = float("inf")

    return fit


CLIENTS = [pair(seed) for seed in range(4)]


def test_divergence_is_in_the_record_and_the_summary_and_others_go_on(caplog):
    settings = {**SETTINGS, "rounds": 2}
    result = federate(net(), CLIENTS, fit=diverging(2), settings=settings)
    [excluded] = result.summary()["excluded"]
    assert (excluded["client"], excluded["round"]) == (2, 1)
    assert "not finite after training, the first in 1.bias" in excluded["reason"]
    assert "round 2: client 2 did not count: model: has 1 values that are not finite" in result.report()
    assert "round 1, client 2: a zero update is sent, because: model: has 1" in caplog.text


def test_divergence_of_all_names_the_first():
    settings = {**SETTINGS, "learning_rate": 1e6, "rounds": 1, "local_epochs": 9}
    with pytest.raises(SenseCryptError, match=r"round 0: no client of cluster 0 could train: client 0: .*not finite"):
        federate(net(), CLIENTS, settings=settings)


def test_running_out_of_memory_is_said(caplog):
    def fit(model, data, number):
        if data[0] is CLIENTS[1][0]:
            raise MemoryError
        with torch.no_grad():
            model[0].weight += 0.01

    result = federate(net(), CLIENTS, fit=fit, settings=SETTINGS)
    [excluded] = result.excluded
    assert (
        excluded["reason"]
        == "clients[1]: runs out of memory in training; lower batch_size or workers, or train a smaller model"
    )


def test_infinite_statistics_are_named():
    clients = [(x * (1e30 if index == 1 else 1), y) for index, (x, y) in enumerate(CLIENTS)]
    result = federate(net(nn.BatchNorm1d(8)), clients, settings=SETTINGS)
    [excluded] = result.excluded
    assert excluded["client"] == 1
    assert "1.running_var" in excluded["reason"]
