"""The gradient of a model's mean loss over many samples."""

from __future__ import annotations

import torch
from torch import nn

from sensecrypt.models.parameters import Float32Vector, gradient_vector, parameter_count

_AT_ONCE = 512
_AT_ONCE_LARGE = 16  # what a large network keeps of more samples between its passes costs more to fetch than it saves
_LARGE = 1_000_000


def mean_gradient(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> Float32Vector:
    """Of the loss over all given samples, in evaluation mode: samples do not influence each other."""
    model.eval()
    model.zero_grad()
    at_once = _AT_ONCE if parameter_count(model) < _LARGE else _AT_ONCE_LARGE
    for start in range(0, len(labels), at_once):
        part = slice(start, start + at_once)
        loss = nn.functional.cross_entropy(model(inputs[part]), labels[part], reduction="sum") / len(labels)
        torch.autograd.backward(loss)
    return gradient_vector(model)
