"""The paper's networks and DLG's, by name.

All take float images of shape (batch, channels, height, width) and return logits.

name         input      parameters
digits-mlp   1 × 8 × 8       2,410
mlp          1 × 28 × 28    50,890
lenet5       1 × 28 × 28    44,426   without padding
alexnet      3 × 32 × 32   124,534   five convolutions, three dense layers
resnet50     3 × 32 × 32   23,705,252   3×3 stem of stride 1, no max-pool, 100 classes
dlg          1 × 28 × 28    13,426   the network of "Deep Leakage from Gradients", only for attacks
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.errors import InvalidInput

DEFAULT_MODEL = {
    "digits": "digits-mlp",
    "mnist": "lenet5",
    "fashion-mnist": "mlp",
    "cifar-10": "alexnet",
    "cifar-100": "resnet50",
}


def build_model(name: str, *, seed: int) -> nn.Module:
    """Return a new network whose weights depend only on `seed`; PyTorch's global generator is not changed."""
    if name not in _BUILDERS:
        near = difflib.get_close_matches(str(name).lower(), MODELS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(MODELS)}"
        raise InvalidInput("model", f"there is no model {name!r}", hint)
    checks.whole("seed", seed, low=0, high=2**63 - 1)
    with torch.random.fork_rng(devices=[]):  # weights are always drawn on the CPU
        torch.default_generator.manual_seed(int(seed))
        return _BUILDERS[name]()


def _dense(*widths: int) -> nn.Sequential:
    """Return a network that flattens its input and applies dense layers with ReLU between them."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _lenet5() -> nn.Sequential:
    convolutions = [nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*convolutions, *_dense(256, 120, 84, 10))


def _alexnet() -> nn.Sequential:
    convolutions: list[nn.Module] = []
    for inputs, outputs in pairwise((3, 6, 16, 32, 64, 128)):
        convolutions += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    network = nn.Sequential(*convolutions, *_dense(128, 120, 84, 10))
    for (
        layer
    ) in network:  # PyTorch's default initialisation shrinks the signal at each of the eight layers: no learning
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    return network


class _Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 convolutions around a shortcut; the 3×3 one carries the stride."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.residual = nn.Sequential(
            *_normalised(inputs, width, 1),
            nn.ReLU(),
            *_normalised(width, width, 3, stride),
            nn.ReLU(),
            *_normalised(width, outputs, 1),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(*_normalised(inputs, outputs, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.residual(x) + self.shortcut(x))


def _normalised(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    convolution = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution, nn.BatchNorm2d(outputs)


def _resnet50() -> nn.Sequential:
    layers: list[nn.Module] = [*_normalised(3, 64, 3), nn.ReLU()]
    inputs = 64
    for width, depth, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(depth):
            layers.append(_Bottleneck(inputs, width, 1 if block else first_stride))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 100))


def _dlg() -> nn.Sequential:
    """Return the network of DLG: smooth, with widely drawn weights and biases, so that image attacks are easy.

    Zhu et al., Deep Leakage from Gradients, NeurIPS 2019: their published code draws biases as widely as weights.
    """
    convolutions: list[nn.Module] = []
    for inputs, stride in ((1, 2), (12, 2), (12, 1)):
        convolutions += [nn.Conv2d(inputs, 12, 5, stride, padding=2), nn.Sigmoid()]
    model = nn.Sequential(*convolutions, *_dense(588, 10))
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return model


_BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "digits-mlp": lambda: _dense(64, 32, 10),
    "mlp": lambda: _dense(784, 64, 10),
    "lenet5": _lenet5,
    "alexnet": _alexnet,
    "resnet50": _resnet50,
    "dlg": _dlg,
}
MODELS = tuple(_BUILDERS)
