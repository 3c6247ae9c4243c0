"""`federate` against loops written here, in plain PyTorch, by the formulas: FedAvg, FedProx and FedAdam."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sensecrypt import federate
from sensecrypt.algo.serverupdates import ServerRule

SIZES, ROUNDS, RATE = (40, 32, 24), 3, 0.1
SETTINGS = {"profile": "insecure-test", "clustering": "none", "workers": 1, "clip": 1e3, "learning_rate": RATE}
MU, ETA, BETA1, BETA2, TAU = 0.7, 0.05, 0.9, 0.99, 1e-3


class Net(nn.Module):
    """Batch normalisation, a tied weight and a frozen one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.same = nn.Linear(6, 6)
        self.same.weight = self.first.weight
        self.same.bias.requires_grad_(False)

    def forward(self, x):
        return self.last(self.same(torch.relu(self.norm(self.first(x)))))


@pytest.fixture
def loaders():
    torch.manual_seed(1)
    x, y = torch.randn(sum(SIZES), 6), torch.arange(sum(SIZES)) % 3
    parts = zip((x + y[:, None]).split(SIZES), y.split(SIZES), strict=True)
    return [DataLoader(TensorDataset(*part), batch_size=16) for part in parts]


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def plain(net, loaders, *, mu=0.0, adam=False):
    """Three rounds: what is trainable by the rule, running statistics by the weighted mean, counters by the maximum."""
    model, weights = copy.deepcopy(net), [len(each.dataset) / sum(SIZES) for each in loaders]
    trainable = [name for name, each in model.named_parameters() if each.requires_grad]
    first = {name: torch.zeros_like(model.get_parameter(name), dtype=torch.float64) for name in trainable}
    second = {name: torch.full_like(each, TAU**2) for name, each in first.items()}
    for _ in range(ROUNDS):
        states = []
        for loader in loaders:
            local = copy.deepcopy(model)
            optimiser = torch.optim.SGD([p for p in local.parameters() if p.requires_grad], lr=RATE, momentum=0.5)
            for x, y in loader:
                optimiser.zero_grad()
                far = sum(
                    ((p - q.detach()) ** 2).sum() for p, q in zip(local.parameters(), model.parameters(), strict=True)
                )
                (nn.functional.cross_entropy(local(x), y) + mu / 2 * far).backward()
                optimiser.step()
            states.append({name: each.detach().clone() for name, each in local.state_dict().items()})
        state = model.state_dict()
        mean = {
            name: sum(weight * each[name].double() for weight, each in zip(weights, states, strict=True))
            for name in state
        }
        for name in state:
            if not state[name].is_floating_point():
                state[name] = max(each[name] for each in states)
            elif adam and name in trainable:
                delta = mean[name] - state[name].double()
                first[name] = BETA1 * first[name] + (1 - BETA1) * delta
                second[name] = BETA2 * second[name] + (1 - BETA2) * delta**2
                state[name] = (state[name].double() + ETA * first[name] / (second[name].sqrt() + TAU)).float()
            else:
                state[name] = mean[name].float()
        if adam:
            state["same.weight"] = state["first.weight"]
        model.load_state_dict(state)
    return model.state_dict()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"proximal_mu": MU}, {"mu": MU}),
        ({"server": ServerRule("fedadam", ETA, BETA1, BETA2, TAU)}, {"adam": True}),
    ],
    ids=["fedavg", "fedprox", "fedadam"],
)
def test_equal_to_the_plain_loop(net, loaders, ours, theirs):
    result = federate(net, loaders, rounds=ROUNDS, settings=SETTINGS, **ours)
    expected, found = plain(net, loaders, **theirs), result.state_dict()
    assert found.keys() == expected.keys()
    far = {name: float((found[name].double() - expected[name].double()).abs().max()) for name in expected}
    assert max(far.values()) < 1e-5, far
    moved = (expected["last.weight"] - net.last.weight.detach()).abs().max()
    assert moved > 1e-2
    if theirs:
        without = plain(net, loaders)
        assert max(float((without[name] - expected[name]).abs().max()) for name in ("last.weight", "norm.bias")) > 1e-3
