"""Gradients of a model's loss: the mean over all samples, or one per sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from sensecrypt import checks
from sensecrypt.models.parameters import Float32Vector, gradient_vector, layout, parameter_count, statistics_count

_AT_ONCE = 512
_AT_ONCE_LARGE = 16  # faster for a large network, whose activations of more samples do not fit the caches
_LARGE = 1_000_000
_NUMBERS = 2**21  # gradient values held at once: 8 MB, of which torch.func makes several copies


def mean_gradient(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> Float32Vector:
    """Return the gradient of the mean loss over the samples, in evaluation mode: samples do not affect each other."""
    model.eval()
    model.zero_grad()
    at_once = _AT_ONCE if parameter_count(model) < _LARGE else _AT_ONCE_LARGE
    for start in range(0, len(labels), at_once):
        part = slice(start, start + at_once)
        loss = nn.functional.cross_entropy(model(inputs[part]), labels[part], reduction="sum") / len(labels)
        torch.autograd.backward(loss)
    return gradient_vector(model)


def sample_gradients(
    model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, *, chunk: int | None = None
) -> Iterator[Float32Vector]:
    """Yield the gradient of each sample's loss, in evaluation mode: one matrix of samples × parameters per chunk.

    Args:
        model: returns logits.
        inputs: samples × the shape of one sample.
        labels: the class of each sample.
        chunk: samples per chunk, which bounds the memory; None: chosen by the size of the model.
    """
    model.eval()
    step = max(1, _NUMBERS // parameter_count(model)) if chunk is None else checks.whole("chunk", chunk, low=1)
    names = [name for name, _ in layout(model)]
    weights = {name: model.get_parameter(name).detach() for name in names}

    def loss(given: dict[str, torch.Tensor], sample: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(functional_call(model, given, (sample[None],)), label[None])

    per_sample = vmap(grad(loss), in_dims=(None, 0, 0))
    for start in range(0, len(labels), step):
        part = slice(start, start + step)
        found = per_sample(weights, inputs[part], labels[part])
        none = torch.zeros(len(labels[part]), statistics_count(model))  # the gradient of statistics
        rows = torch.cat([*(found[name].reshape(len(labels[part]), -1) for name in names), none], dim=1)
        yield np.asarray(rows.detach().to("cpu", torch.float32).numpy(), dtype=np.float32)
