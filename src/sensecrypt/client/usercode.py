"""Helpers around a user's model and data: batches of any form, seeded generators, errors that name client and layer."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import nn

from sensecrypt.errors import InvalidInput, SenseCryptError

Batch = Any  # a tensor, or a tuple, list or mapping of batches


def map_tensors(change: Callable[[torch.Tensor], Any], batch: Batch) -> Batch:
    """Return the batch with `change` applied to every tensor; other values stay."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(change, value) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)([map_tensors(change, each) for each in batch]) if type(batch) in (tuple, list) else batch
    return batch


def tensors_of(batch: Batch) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the name (a key, an index, or nothing) and the value of every tensor of a batch."""
    if isinstance(batch, torch.Tensor):
        yield "", batch
    elif isinstance(batch, (Mapping, tuple, list)):
        for key, value in batch.items() if isinstance(batch, Mapping) else enumerate(batch):
            for inner, tensor in tensors_of(value):
                yield f"{key}.{inner}" if inner else str(key), tensor


def size_of(batch: Batch) -> int:
    """Return the number of samples of a batch: the length of its first tensor that has one; else 1."""
    return next((len(tensor) for _, tensor in tensors_of(batch) if tensor.ndim), 1)


def as_tensors(data: Any) -> Any:
    """Return the data with NumPy arrays and lists of numbers converted to tensors."""
    if isinstance(data, Mapping):
        return {key: as_tensors(value) for key, value in data.items()}
    if isinstance(data, tuple):
        return tuple(as_tensors(each) for each in data)
    if isinstance(data, (np.ndarray, np.generic)) or (isinstance(data, list) and _numbers(data)):
        return torch.as_tensor(np.asarray(data))
    return data


def on_device(batch: Batch, device: torch.device) -> Batch:
    """Return the batch on the model's device."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if device.type == "mps" and tensor.dtype == torch.float64:  # MPS does not support float64
            tensor = tensor.float()
        return tensor.to(device)

    return batch if device.type == "cpu" else map_tensors(moved, batch)


def described(batch: Batch) -> str:
    """Return shapes and types as text, for an error."""
    parts = [f"{name} {tuple(each.shape)} {each.dtype}".strip() for name, each in tensors_of(batch)]
    return ", ".join(parts).replace("torch.", "") or f"a {type(batch).__name__}"


def _numbers(data: Sequence[Any]) -> bool:
    return bool(data) and all(isinstance(each, (int, float)) for each in data)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators, which dropout and augmentation use, and restore their states afterwards."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (other libraries' transforms use it)
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


_LONGEST = 200  # characters of another library's message


@contextlib.contextmanager
def explained(who: str, model: nn.Module) -> Iterator[None]:
    """Convert any error inside the context to `InvalidInput`.

    Args:
        who: the argument that has the data, such as `clients[3]`.
        model: the model whose layers errors name.
    """
    try:
        yield
    except SenseCryptError:
        raise
    except Exception as error:
        raise InvalidInput(who, *_explain(error, model)) from error


def _explain(error: Exception, model: nn.Module) -> tuple[str, str]:
    """Return problem and fix of an error."""
    frames = list(_frames(error))
    names = {id(module): name for name, module in model.named_modules() if name}
    layers = [(frame, names[id(frame.f_locals["self"])]) for frame in frames if _is_layer(frame, names)]
    layer, where, given = None, "", ""
    if layers:
        frame, name = layers[-1]
        layer = frame.f_locals["self"]
        where = f" in layer {name} ({type(layer).__name__})"
        tensors = [each for each in frame.f_locals.values() if isinstance(each, torch.Tensor)]
        given = f" with an input of {described(tensors[0])}" if tensors else ""
    text = str(error).split("\n", 1)[0][:_LONGEST]
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "memory" in text.lower():
        return f"runs out of memory in training{where}{given}", "lower batch_size or workers, or train a smaller model"
    if isinstance(error, RecursionError):
        return f"causes endless recursion{where}", "look for a module or a function that calls itself"
    classes = _classes(frames)
    if classes is not None:
        low, high, many = classes
        return f"has labels {low} … {high}, but the model has {many} classes", f"number classes 0 … {many - 1}"
    if isinstance(layer, nn.Embedding) and isinstance(error, IndexError):
        highest = int(max(each.max() for each in frames[-1].f_locals.values() if isinstance(each, torch.Tensor)))
        problem = f"has number {highest}, but layer {layers[-1][1]} has {layer.num_embeddings} embeddings"
        return problem, "enlarge the embedding, or renumber the inputs"
    if "more than 1 value per channel" in text:
        return f"leaves a batch of one sample, which{where} cannot normalise", "choose another batch_size"
    if layer is not None and isinstance(error, (RuntimeError, ValueError, IndexError)):
        weight = getattr(layer, "weight", None)
        needs = f"; its weights are {described(weight)}" if isinstance(weight, torch.Tensor) else ""
        return f"does not fit the model: fails{where}{given}{needs}", "match shapes and types of inputs and layer"
    return f"cannot be trained on: {type(error).__name__}{where}: {text}", "check the model, the loss and these data"


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _is_layer(frame: FrameType, names: dict[int, str]) -> bool:
    return id(frame.f_locals.get("self")) in names


def _classes(frames: list[FrameType]) -> tuple[int, int, int] | None:
    """Return smallest label, largest label and number of classes if cross-entropy failed on labels out of range."""
    for frame in reversed(frames):
        if frame.f_code.co_name != "cross_entropy":
            continue
        output, target = frame.f_locals.get("input"), frame.f_locals.get("target")
        if not (isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor)):
            continue
        if output.ndim > 1 and target.numel() and not target.is_floating_point():
            low, high, many = int(target.min()), int(target.max()), int(output.shape[1])
            return (low, high, many) if low < 0 or high >= many else None
    return None
