"""A CNN with batch normalisation, three clients, eight rounds: federated and encrypted, and beside it plain PyTorch.

    python examples/batchnorm_cnn.py            CIFAR-10 if it is in $SENSECRYPT_DATA, else digits at its size
    python examples/batchnorm_cnn.py --tiny     a few samples

The plain loop averages parameters and running statistics by sample counts, as most FedAvg code does.
"""

from __future__ import annotations

import copy
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sensecrypt import federate
from sensecrypt.data import load_dataset
from sensecrypt.data.datasets import is_there

TINY = "--tiny" in sys.argv
ROUNDS, RATE, WIDTH = (2 if TINY else 8), 0.05, (4 if TINY else 8)


def load(name: str, many: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training and test samples as colour images of 32 × 32."""
    data = load_dataset(name)
    images = [torch.from_numpy(each[:many]).float().div(255) for each in (data.train_images, data.test_images)]
    if name == "digits":
        images = [nn.functional.interpolate(each.repeat(1, 3, 1, 1), 32) for each in images]
    x, x_test = [(each - 0.5) / 0.25 for each in images]
    return x, torch.from_numpy(data.train_labels[:many]), x_test, torch.from_numpy(data.test_labels[:many])


def make_model() -> nn.Module:
    """Three convolutions, each with batch normalisation."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, WIDTH), (WIDTH, 2 * WIDTH), (2 * WIDTH, 4 * WIDTH)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * WIDTH, 10))


def plain_fedavg(model: nn.Module, loaders: list[DataLoader]) -> nn.Module:
    """FedAvg that averages everything in the state, in plain PyTorch."""
    model, total = copy.deepcopy(model), sum(len(loader.dataset) for loader in loaders)
    for _ in range(ROUNDS):
        mean = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in model.state_dict().items()}
        for loader in loaders:
            local = copy.deepcopy(model).train()
            optimiser = torch.optim.SGD(local.parameters(), lr=RATE, momentum=0.5)
            for x, y in loader:
                optimiser.zero_grad()
                nn.functional.cross_entropy(local(x), y).backward()
                optimiser.step()
            for name, value in local.state_dict().items():
                mean[name] += value.double() * len(loader.dataset) / total
        model.load_state_dict({name: value.to(model.state_dict()[name].dtype) for name, value in mean.items()})
    return model.eval()


def main() -> None:
    """Print both accuracies."""
    name = "cifar-10" if is_there("cifar-10") and not TINY else "digits"
    x, y, x_test, y_test = load(name, 90 if TINY else 6000)
    parts = zip(x.tensor_split(3), y.tensor_split(3), strict=True)
    loaders = [DataLoader(TensorDataset(*part), batch_size=30) for part in parts]
    settings = {"clustering": "none", "learning_rate": RATE}
    result = federate(make_model(), loaders, test=(x_test, y_test), rounds=ROUNDS, settings=settings)
    plain = plain_fedavg(make_model(), loaders)
    with torch.no_grad():
        right = (plain(x_test).argmax(1) == y_test).double().mean()
    ours = result.history[-1]["accuracy"]
    print(f"{name}: encrypted {ours:.1%}, plain FedAvg with running statistics {float(right):.1%}")
    print(result.report())


if __name__ == "__main__":
    main()
