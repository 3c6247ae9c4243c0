"""A model as one flat vector: what training changes, in the order in which the model registers it.

First its trainable parameters, a tied one once; then its statistics: floating-point buffers of its state, such as the
running means of batch normalisation, and whole-numbered ones, such as its counters. Frozen parameters stay where they
are, and so do buffers that no average could be taken of: truth values, complex or infinite numbers. The vector is
float32; a model of another type gets its values back in that type.

Statistics are scaled by powers of two, so that a slot of fixed point holds how far they move in a round. The mean of
unlike counters is rounded up: as a rule their maximum, and never above it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sensecrypt import checks
from sensecrypt.errors import InvalidInput

Float32Vector = npt.NDArray[np.float32]
STATISTIC_SCALE = 2.0**-5  # a slot's ±128 are ±4096, in steps of 2e-6
COUNTER_SCALE = 2.0**-12  # and ±524,288 counts
_LARGEST_COUNT = 2**24  # whole numbers that float32 holds
_COUNT_ROUNDING = 1 / 16  # more than fixed point rounds a counter by


@dataclass(frozen=True, eq=False)
class Statistic:
    """A buffer that travels.

    Attributes:
        name: of the buffer.
        tensor: its values.
        scale: what they are multiplied by in the vector.
    """

    name: str
    tensor: torch.Tensor
    scale: float


def layout(model: torch.nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of each trainable parameter, in the vector's order."""
    return [(name, tuple(parameter.shape)) for name, parameter in _trainable(model)]


def vector_layout(model: torch.nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of everything in the vector: parameters, then statistics."""
    return layout(model) + [(each.name, tuple(each.tensor.shape)) for each in statistics(model)]


def parameter_count(model: torch.nn.Module) -> int:
    """How many trainable parameters there are: the vector's length without statistics."""
    return sum(parameter.numel() for _, parameter in _trainable(model))


def statistics_count(model: torch.nn.Module) -> int:
    """How many values at the vector's end are statistics."""
    return sum(each.tensor.numel() for each in statistics(model))


def statistics(model: torch.nn.Module) -> list[Statistic]:
    """The buffers that travel, in the order in which the model registers them."""
    return [
        Statistic(name, buffer, STATISTIC_SCALE if buffer.is_floating_point() else COUNTER_SCALE)
        for name, buffer in _state_buffers(model)
        if buffer.numel() and _has_a_mean(buffer)
    ]


def constants(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of the buffers that stay where they are, because no average could be taken of them."""
    return {name: buffer.clone() for name, buffer in _state_buffers(model) if not _has_a_mean(buffer)}


def require_constants(model: torch.nn.Module, before: dict[str, torch.Tensor]) -> None:
    """Raise for a buffer that stays where it is, and that training has changed all the same."""
    for name, buffer in constants(model).items():
        if name not in before:
            problem = f"has values that are not finite after training, the first in {name}"
            raise InvalidInput("model", problem, "lower the learning rate, or look at this client's data")
        if not torch.equal(buffer.cpu(), before[name].cpu()):
            problem = f"changes {name} in training, which is {buffer.dtype} and has no average"
            raise InvalidInput("model", problem, "keep it in floating point, or register it with persistent=False")


def require_averageable(model: torch.nn.Module) -> None:
    """Raise for a trainable parameter that no average of float32 numbers can be taken of, by its name."""
    for name, parameter in _trainable(model):
        if torch.nn.parameter.is_lazy(parameter):
            raise InvalidInput("model", f"has no values in {name} yet", "pass a batch through it first")
        if parameter.layout != torch.strided or parameter.is_quantized or not parameter.is_floating_point():
            kind = parameter.dtype if parameter.layout == torch.strided else parameter.layout
            fix = "freeze it with requires_grad_(False), or keep it in dense floating point"
            raise InvalidInput("model", f"has {name} of type {kind}, which cannot be averaged", fix)
        if not torch.isfinite(parameter).all():
            raise InvalidInput("model", f"has values in {name} that are not finite", "look at how it is initialised")


def get_vector(model: torch.nn.Module) -> Float32Vector:
    """A copy of all trainable parameters and statistics."""
    scaled = [each.tensor.detach().to("cpu", torch.float32) * each.scale for each in statistics(model)]
    return _flatten([parameter.detach() for _, parameter in _trainable(model)] + scaled)


def set_vector(model: torch.nn.Module, vector: npt.ArrayLike) -> None:
    """Write all trainable parameters and statistics; a vector that does not fit changes none."""
    with np.errstate(over="ignore"):  # what exceeds float32 becomes infinite, which the second check finds
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
    """Everything in the vector by name, as it is in the model: float32, without scales."""
    tensors = dict(_trainable(model)) | {each.name: each.tensor for each in statistics(model)}
    return {name: _flatten([tensor.detach()]).reshape(tensor.shape) for name, tensor in tensors.items()}


def gradient_vector(model: torch.nn.Module) -> Float32Vector:
    """A copy of all gradients, as the last backward pass left them, and zeros for the statistics."""
    gradients = []
    for name, parameter in _trainable(model):
        if parameter.grad is None:
            raise InvalidInput("model", f"parameter {name} has no gradient", "call backward() on its loss first")
        gradients.append(parameter.grad.detach())
    return _flatten([*gradients, torch.zeros(statistics_count(model))])


def _trainable(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    trainable = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not trainable:
        raise InvalidInput("model", "has no trainable parameters", "pass one that can learn")
    return trainable


def _state_buffers(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """The buffers that a state dict has: what `persistent=False` keeps out of it is computed anew anyway."""
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
