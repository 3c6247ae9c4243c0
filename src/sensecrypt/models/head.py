"""The classifier of a network, and the parameters to encrypt regardless of their sensitivity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import nn

from sensecrypt.errors import InvalidInput
from sensecrypt.models.parameters import get_vector, layout, parameter_count


@dataclass(frozen=True, eq=False)
class Head:
    """The positions of the last dense layer in the vector of parameters.

    Attributes:
        weight: positions of W, classes × inputs.
        bias: positions of b; empty if the layer has no bias.
    """

    weight: npt.NDArray[np.int64]
    bias: npt.NDArray[np.int64]


def find_head(model: nn.Module, classes: int) -> Head:
    """Return the classifier: the last parameters of the network, if they are a dense layer of `classes` outputs."""
    shapes = layout(model)
    ends = np.cumsum([int(np.prod(shape)) for _, shape in shapes])
    bias = np.empty(0, dtype=np.int64)
    last = len(shapes) - 1
    if len(shapes[last][1]) == 1:
        bias = np.arange(ends[last] - shapes[last][1][0], ends[last])
        last -= 1
    if last < 0 or len(shapes[last][1]) != 2 or shapes[last][1][0] != classes or bias.size not in (0, classes):
        problem = f"does not end in a dense layer of {classes} outputs"
        raise InvalidInput("model", problem, "pass a model that does: label attacks read this layer")
    rows, columns = shapes[last][1]
    start = ends[last] - rows * columns
    return Head(np.arange(start, ends[last]).reshape(rows, columns), bias)


def always_encrypt(initial: nn.Module, classes: int) -> npt.NDArray[np.bool_]:
    """Return one bool per value of the vector: True if it reveals labels or data despite a small sensitivity |w·g|.

    These are the classifier, whose gradients label attacks read; parameters that start at zero, such as biases and the
    shifts of batch normalisation, because w = 0 makes the sensitivity 0 while the gradient stays visible; and
    statistics, which have no gradient and describe the client's data.

    Args:
        initial: the model before training.
        classes: number of classes; a network that does not end in a dense layer of as many outputs has no classifier.
    """
    chosen: npt.NDArray[np.bool_] = get_vector(initial) == 0
    chosen[parameter_count(initial) :] = True
    try:
        head = find_head(initial, classes)
    except InvalidInput:
        return chosen
    chosen[head.weight.ravel()] = True
    chosen[head.bias] = True
    return chosen
