"""The networks that iLRG's authors attacked, untrained, as they describe and configure them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import nn

from sensecrypt.models import build_model


def build_network(network: str, dataset: str, seed: int) -> tuple[nn.Sequential, torch.Generator]:
    """An untrained network whose last layer is the classifier; and the generator after drawing its weights."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = _BUILDERS[network, dataset](seed)
        state = torch.get_rng_state()
    return cast(nn.Sequential, model.eval()), torch.Generator().set_state(state)


def _fcn(_seed: int) -> nn.Module:
    sizes = [nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 10)]
    return nn.Sequential(nn.Flatten(), *sizes)


def _colour_lenet(_seed: int) -> nn.Module:
    """LeNet-5 for images of 3 × 32 × 32 and 100 classes."""
    convolutions = [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
    for layer in (convolutions[0], convolutions[3]):
        nn.init.kaiming_normal_(cast(torch.Tensor, layer.weight), mode="fan_out", nonlinearity="relu")
    dense = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 100)]
    return nn.Sequential(*convolutions, nn.Flatten(), *dense)


def _resnet18(_seed: int) -> nn.Module:
    """ResNet-18 for small images: a stem of 3 × 3 and stride 1, no pooling before the blocks."""
    layers: list[nn.Module] = [*_normalised(3, 64, 3, 1), nn.ReLU()]
    inputs = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_Block(inputs, width, stride), _Block(width, width, 1)]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))


class _Block(nn.Module):
    """Two convolutions and a shortcut around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(*_normalised(inputs, width, 3, stride), nn.ReLU(), *_normalised(width, width, 3, 1))
        changes = stride != 1 or inputs != width
        self.around = nn.Sequential(*_normalised(inputs, width, 1, stride)) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.way(x) + self.around(x))


def _normalised(inputs: int, outputs: int, size: int, stride: int) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    convolution = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution, nn.BatchNorm2d(outputs)


_BUILDERS: dict[tuple[str, str], Callable[[int], nn.Module]] = {
    ("FCN-3", "mnist"): _fcn,
    ("LeNet-5", "mnist"): lambda seed: build_model("lenet5", seed=seed),
    ("LeNet-5", "cifar-100"): _colour_lenet,
    ("ResNet-18", "cifar-100"): _resnet18,
}
