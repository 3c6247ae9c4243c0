"""iLRG on batches of an untrained network, with images prepared as by its authors.

Their logs of 2022-09-03 are reproduced, batch by batch, if every image is first cropped and mirrored at random; the log
of 2022-09-15 (FCN-3, 24 samples) if images are left as they are.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt.data import Dataset
from sensecrypt.lab.attacks.ilrg import FloatVector, IntVector, ilrg
from sensecrypt.lab.experiments.anchor_networks import build_network

_SCALES = {  # mean and deviation of the training images per channel
    "mnist": ([0.13066373765468597], [0.30810782313346863]),
    "cifar-100": ([0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
}
_MARGIN = 4  # pixels around an image that a crop may contain
_THEIR_NETWORK, _THEIR_BATCHES, _BATCHES = 13, 18, 50  # seeds of PyTorch's generator and of Python's, for their seed 12


def their_run(network: str, data: Dataset, samples: int, *, moved: bool) -> Iterator[tuple[FloatVector, IntVector]]:
    """`recovered` for the authors' own network and fifty batches, as their generators draw them."""
    draws = random.Random(_THEIR_BATCHES)  # noqa: S311  (theirs, not ours)
    chosen = (draws.sample(range(len(data.train_labels)), samples) for _ in range(_BATCHES))
    model, generator = build_network(network, data.name, _THEIR_NETWORK)
    return recovered(model, data, chosen, moved=moved, generator=generator)


def recovered(
    model: nn.Sequential,
    data: Dataset,
    batches: Iterable[Sequence[int] | npt.NDArray[np.int64]],
    *,
    moved: bool,
    generator: torch.Generator,
) -> Iterator[tuple[FloatVector, IntVector]]:
    """For each batch of positions, the counts that iLRG finds, before rounding, and the true counts.

    The model's last layer is its classifier. If `moved`, images are cropped and mirrored at random.
    """
    body, head = model[:-1], cast(nn.Linear, model[-1])
    weight, bias = head.weight.detach().numpy(), head.bias.detach().numpy()
    for chosen in batches:
        pixels, labels = data.train_images[chosen], data.train_labels[chosen]
        images = _normalised(_moved(pixels, generator) if moved else pixels, data.name)
        g_weight, g_bias = _head_gradient(body, head, images, torch.from_numpy(labels))
        yield ilrg(g_weight, g_bias, weight, bias, len(labels)), np.bincount(labels, minlength=data.classes)


def _moved(images: npt.NDArray[np.uint8], generator: torch.Generator) -> npt.NDArray[np.uint8]:
    """Each image randomly cropped from itself with a black margin, and mirrored with probability 1/2.

    Row, column and side are drawn per image, in the order of the authors' run.
    """
    height, width = images.shape[-2:]
    with_margin = np.pad(images, ((0, 0), (0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN)))
    crops = np.empty_like(images)
    for place, image in enumerate(with_margin):
        row, column = (int(torch.randint(2 * _MARGIN + 1, (1,), generator=generator)) for _ in range(2))
        crop = image[:, row : row + height, column : column + width]
        crops[place] = crop[:, :, ::-1] if float(torch.rand(1, generator=generator)) < 0.5 else crop
    return crops


def _normalised(images: npt.NDArray[np.uint8], dataset: str) -> torch.Tensor:
    mean, deviation = (torch.tensor(each).reshape(1, -1, 1, 1) for each in _SCALES[dataset])
    return (torch.from_numpy(images).float() / 255 - mean) / deviation


def _head_gradient(
    body: nn.Module, head: nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float32]], np.ndarray[tuple[int], np.dtype[np.float32]]]:
    """The batch-mean gradient of the last layer, the only input of iLRG."""
    with torch.no_grad():
        embeddings = body(images)
    loss = nn.functional.cross_entropy(head(embeddings), labels)
    g_weight, g_bias = torch.autograd.grad(loss, list(head.parameters()))
    return g_weight.numpy(), g_bias.numpy()
