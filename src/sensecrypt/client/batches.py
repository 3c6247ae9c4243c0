"""Batches of any form: tensors, tuples, lists and dicts of them, as training loops have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

Batch = Any  # a tensor, or a tuple, list or mapping of batches


def map_tensors(change: Callable[[torch.Tensor], Any], batch: Batch) -> Batch:
    """The batch with every tensor changed; what is no tensor stays."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(change, value) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)([map_tensors(change, each) for each in batch]) if type(batch) in (tuple, list) else batch
    return batch


def tensors_of(batch: Batch) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a batch and its name: a key, a place, or nothing."""
    if isinstance(batch, torch.Tensor):
        yield "", batch
    elif isinstance(batch, (Mapping, tuple, list)):
        for key, value in batch.items() if isinstance(batch, Mapping) else enumerate(batch):
            for inner, tensor in tensors_of(value):
                yield f"{key}.{inner}" if inner else str(key), tensor


def size_of(batch: Batch) -> int:
    """How many samples a batch has: the length of its first tensor that has one; 1 without any."""
    return next((len(tensor) for _, tensor in tensors_of(batch) if tensor.ndim), 1)


def as_tensors(data: Any) -> Any:
    """The same with NumPy arrays, and lists of numbers, as tensors."""
    if isinstance(data, Mapping):
        return {key: as_tensors(value) for key, value in data.items()}
    if isinstance(data, tuple):
        return tuple(as_tensors(each) for each in data)
    if isinstance(data, (np.ndarray, np.generic)) or (isinstance(data, list) and _numbers(data)):
        return torch.as_tensor(np.asarray(data))
    return data


def on_device(batch: Batch, device: torch.device) -> Batch:
    """The batch where the model is."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if device.type == "mps" and tensor.dtype == torch.float64:  # which Apple's processors do not have
            tensor = tensor.float()
        return tensor.to(device)

    return batch if device.type == "cpu" else map_tensors(moved, batch)


def described(batch: Batch) -> str:
    """Shapes and types, for an error."""
    parts = [f"{name} {tuple(each.shape)} {each.dtype}".strip() for name, each in tensors_of(batch)]
    return ", ".join(parts).replace("torch.", "") or f"a {type(batch).__name__}"


def _numbers(data: Sequence[Any]) -> bool:
    return bool(data) and all(isinstance(each, (int, float)) for each in data)
