"""A model as one flat vector: its trainable parameters, in the order in which the model registers them.

Buffers, such as the running statistics of batch normalisation, are no parameters and stay where they are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from sensecrypt import checks
from sensecrypt.errors import InvalidInput

Float32Vector = npt.NDArray[np.float32]


def layout(model: torch.nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of each trainable parameter, in the vector's order."""
    return [(name, tuple(parameter.shape)) for name, parameter in _trainable(model)]


def parameter_count(model: torch.nn.Module) -> int:
    """Length of the vector."""
    return sum(parameter.numel() for _, parameter in _trainable(model))


def get_vector(model: torch.nn.Module) -> Float32Vector:
    """A copy of all trainable parameters."""
    return _flatten([parameter for _, parameter in _trainable(model)])


def set_vector(model: torch.nn.Module, vector: npt.ArrayLike) -> None:
    """Write all trainable parameters; a vector that does not fit changes none."""
    with np.errstate(over="ignore"):  # what exceeds float32 becomes infinite, which the second check finds
        values = checks.finite_vector("vector", vector).astype(np.float32)
    checks.same_length("vector", values, parameter_count(model), "the model")
    if not np.isfinite(values).all():
        raise InvalidInput("vector", "has values beyond float32", "check the training step for divergence")
    parameters = [parameter for _, parameter in _trainable(model)]
    chunks = np.split(values, np.cumsum([parameter.numel() for parameter in parameters])[:-1])
    with torch.no_grad():
        for parameter, chunk in zip(parameters, chunks, strict=True):
            parameter.copy_(torch.from_numpy(chunk).view_as(parameter))


def gradient_vector(model: torch.nn.Module) -> Float32Vector:
    """A copy of all gradients, as the last backward pass left them."""
    gradients = []
    for name, parameter in _trainable(model):
        if parameter.grad is None:
            raise InvalidInput("model", f"parameter {name} has no gradient", "call backward() on its loss first")
        gradients.append(parameter.grad)
    return _flatten(gradients)


def _trainable(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    trainable = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not trainable:
        raise InvalidInput("model", "has no trainable parameters", "pass one that can learn")
    return trainable


def _flatten(tensors: list[torch.Tensor] | list[torch.nn.Parameter]) -> Float32Vector:
    flat = torch.cat([tensor.detach().reshape(-1).to("cpu", torch.float32) for tensor in tensors])
    return np.asarray(flat.numpy(), dtype=np.float32)
