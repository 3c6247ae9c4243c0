"""A model as one flat vector: everything that training changes, in the order in which the model registers it.

The vector starts with the trainable parameters, a shared parameter once. Statistics follow: floating-point buffers of
the model's state, such as the running means of batch normalisation, and integer buffers, such as its counters. Frozen
parameters stay on the client, and so do buffers that cannot be averaged: Boolean, complex or infinite ones. The vector
is float32; a model of another type gets its values back in that type.

Statistics are scaled by powers of two, so that their change in a round fits a fixed-point slot. The mean of different
counters is rounded up: it is usually their maximum, and never larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sensecrypt import checks
from sensecrypt.errors import InvalidInput

Float32Vector = npt.NDArray[np.float32]
STATISTIC_SCALE = 2.0**-5  # a slot's range of ±128 becomes ±4096, in steps of 2e-6
COUNTER_SCALE = 2.0**-12  # a slot's range becomes ±524,288
_LARGEST_COUNT = 2**24  # float32 represents all smaller integers
_COUNT_ROUNDING = 1 / 16  # larger than the rounding error of a counter in fixed point


@dataclass(frozen=True, eq=False)
class Statistic:
    """A buffer that is part of the vector.

    Attributes:
        name: the buffer's name.
        tensor: the buffer's values.
        scale: the factor of the values in the vector.
    """

    name: str
    tensor: torch.Tensor
    scale: float


def layout(model: torch.nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    """Return name and shape of each trainable parameter, in the vector's order."""
    return [(name, tuple(parameter.shape)) for name, parameter in _trainable(model)]


def vector_layout(model: torch.nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    """Return name and shape of everything in the vector: parameters, then statistics."""
    return layout(model) + [(each.name, tuple(each.tensor.shape)) for each in statistics(model)]


def parameter_count(model: torch.nn.Module) -> int:
    """Return the number of trainable parameters: the vector's length without statistics."""
    return sum(parameter.numel() for _, parameter in _trainable(model))


def statistics_count(model: torch.nn.Module) -> int:
    """Return how many values at the vector's end are statistics."""
    return sum(each.tensor.numel() for each in statistics(model))


def statistics(model: torch.nn.Module) -> list[Statistic]:
    """Return the buffers that are part of the vector, in the order in which the model registers them."""
    return [
        Statistic(name, buffer, STATISTIC_SCALE if buffer.is_floating_point() else COUNTER_SCALE)
        for name, buffer in _state_buffers(model)
        if buffer.numel() and _has_a_mean(buffer)
    ]


def constants(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of the buffers that are not part of the vector, because they cannot be averaged."""
    return {name: buffer.clone() for name, buffer in _state_buffers(model) if not _has_a_mean(buffer)}


def require_constants(model: torch.nn.Module, before: dict[str, torch.Tensor]) -> None:
    """Raise if training changed a buffer that cannot be averaged.

    Args:
        model: the model after training.
        before: the result of `constants` before training.
    """
    for name, buffer in constants(model).items():
        if name not in before:
            problem = f"has values that are not finite after training, the first in {name}"
            raise InvalidInput("model", problem, "lower the learning rate, or check this client's data")
        if not torch.equal(buffer.cpu(), before[name].cpu()):
            problem = f"changes {name} in training, but {buffer.dtype} cannot be averaged"
            raise InvalidInput("model", problem, "keep it in floating point, or register it with persistent=False")


def require_averageable(model: torch.nn.Module) -> None:
    """Raise if a trainable parameter cannot be averaged in float32, and name it."""
    for name, parameter in _trainable(model):
        if torch.nn.parameter.is_lazy(parameter):
            raise InvalidInput("model", f"has no values in {name} yet", "pass a batch through it first")
        if parameter.layout != torch.strided or parameter.is_quantized or not parameter.is_floating_point():
            kind = parameter.dtype if parameter.layout == torch.strided else parameter.layout
            fix = "freeze it with requires_grad_(False), or keep it in dense floating point"
            raise InvalidInput("model", f"has {name} of type {kind}, which cannot be averaged", fix)
        if not torch.isfinite(parameter).all():
            raise InvalidInput("model", f"has values in {name} that are not finite", "check its initialisation")


def get_vector(model: torch.nn.Module) -> Float32Vector:
    """Return a copy of all trainable parameters and statistics."""
    scaled = [each.tensor.detach().to("cpu", torch.float32) * each.scale for each in statistics(model)]
    return _flatten([parameter.detach() for _, parameter in _trainable(model)] + scaled)


def set_vector(model: torch.nn.Module, vector: npt.ArrayLike) -> None:
    """Write all trainable parameters and statistics; a vector that does not fit raises and changes nothing."""
    with np.errstate(over="ignore"):  # values beyond float32 become infinite, and the second check refuses them
        values = checks.finite_vector("vector", vector).astype(np.float32)
    kept = statistics(model)
    targets = [parameter for _, parameter in _trainable(model)] + [each.tensor for each in kept]
    checks.same_length("vector", values, sum(target.numel() for target in targets), "the model")
    if not np.isfinite(values).all():
        raise InvalidInput("vector", "has values beyond float32", "check the training step for divergence")
    chunks = np.split(values, np.cumsum([target.numel() for target in targets])[:-1])
    many = len(targets) - len(kept)
    chunks[many:] = [_unscaled(chunk, each) for chunk, each in zip(chunks[many:], kept, strict=True)]
    with torch.no_grad():
        for target, chunk in zip(targets, chunks, strict=True):
            target.copy_(torch.from_numpy(chunk).view_as(target))


def named_arrays(model: torch.nn.Module) -> dict[str, npt.NDArray[np.float32]]:
    """Return the values of the vector by name, in the model's shapes: float32, without scales."""
    tensors = dict(_trainable(model)) | {each.name: each.tensor for each in statistics(model)}
    return {name: _flatten([tensor.detach()]).reshape(tensor.shape) for name, tensor in tensors.items()}


def gradient_vector(model: torch.nn.Module) -> Float32Vector:
    """Return a copy of all gradients of the last backward pass, and zeros for the statistics."""
    gradients = []
    for name, parameter in _trainable(model):
        if parameter.grad is None:
            raise InvalidInput("model", f"parameter {name} has no gradient", "call backward() on its loss first")
        gradients.append(parameter.grad.detach())
    return _flatten([*gradients, torch.zeros(statistics_count(model))])


def _trainable(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    trainable = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not trainable:
        raise InvalidInput("model", "has no trainable parameters", "set requires_grad_(True) on those to train")
    return trainable


def _state_buffers(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return the buffers of the state dict, each once; `persistent=False` excludes buffers that are recomputed."""
    seen: set[int] = set()
    found = []
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module._non_persistent_buffers_set and id(buffer) not in seen:
                seen.add(id(buffer))
                found.append((f"{prefix}.{name}" if prefix else name, buffer))
    return found


def _has_a_mean(buffer: torch.Tensor) -> bool:
    if buffer.dtype == torch.bool or buffer.is_complex() or buffer.is_quantized or buffer.layout != torch.strided:
        return False
    if buffer.is_floating_point():
        return bool(torch.isfinite(buffer).all())
    return bool((buffer.abs() < _LARGEST_COUNT).all())


def _unscaled(chunk: Float32Vector, statistic: Statistic) -> npt.NDArray[np.float32]:
    values = chunk / np.float32(statistic.scale)
    return values if statistic.tensor.is_floating_point() else np.ceil(values - np.float32(_COUNT_ROUNDING))


def _flatten(tensors: list[torch.Tensor]) -> Float32Vector:
    flat = torch.cat([tensor.reshape(-1).to("cpu", torch.float32) for tensor in tensors])
    return np.asarray(flat.numpy(), dtype=np.float32)
