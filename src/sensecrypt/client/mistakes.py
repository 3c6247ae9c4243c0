"""What went wrong in a user's model, loss or data, in one sentence that names the client, the layer and the fix."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FrameType

import torch
from torch import nn

from sensecrypt.client.batches import described
from sensecrypt.errors import InvalidInput, SenseCryptError

_LONGEST = 200  # characters of somebody else's message


@contextlib.contextmanager
def explained(who: str, model: nn.Module) -> Iterator[None]:
    """Turn whatever the work inside raises into `InvalidInput`.

    Args:
        who: the argument whose data are worked on, such as `clients[3]`.
        model: whose layers are named.
    """
    try:
        yield
    except SenseCryptError:
        raise
    except Exception as error:
        raise InvalidInput(who, *_explain(error, model)) from error


def _explain(error: Exception, model: nn.Module) -> tuple[str, str]:
    """The problem and the fix."""
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
        return f"leads to calls without end{where}", "look for a module or a function that calls itself"
    classes = _classes(frames)
    if classes is not None:
        low, high, many = classes
        return f"has labels {low} … {high}, and the model tells {many} classes apart", f"number classes 0 … {many - 1}"
    if isinstance(layer, nn.Embedding) and isinstance(error, IndexError):
        highest = int(max(each.max() for each in frames[-1].f_locals.values() if isinstance(each, torch.Tensor)))
        problem = f"has number {highest}, and layer {layers[-1][1]} has {layer.num_embeddings} embeddings"
        return problem, "enlarge the embedding, or renumber the inputs"
    if "more than 1 value per channel" in text:
        return f"leaves a batch of one sample, which{where} cannot normalise", "choose another batch_size"
    if layer is not None and isinstance(error, (RuntimeError, ValueError, IndexError)):
        weight = getattr(layer, "weight", None)
        needs = f"; its weights are {described(weight)}" if isinstance(weight, torch.Tensor) else ""
        return f"does not fit the model: fails{where}{given}{needs}", "make shapes and types of inputs and layer agree"
    return f"cannot be trained on: {type(error).__name__}{where}: {text}", "look at the model, the loss and these data"


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _is_layer(frame: FrameType, names: dict[int, str]) -> bool:
    return id(frame.f_locals.get("self")) in names


def _classes(frames: list[FrameType]) -> tuple[int, int, int] | None:
    """The least and the largest label and the number of classes, if cross-entropy failed on labels outside."""
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
