"""The subject of `advise` and `demo`: a network of the zoo on a named data set, or a user's model and data."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt.client.problem import Problem, own_problem
from sensecrypt.data import load_dataset
from sensecrypt.errors import InvalidInput
from sensecrypt.models import DEFAULT_MODEL, build_model


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and its data.

    Attributes:
        name: of the model.
        build: the model, from a seed.
        inputs: of all samples, as bytes or as numbers.
        labels: of the inputs.
        classes: how many there are.
        problem: the same, split over clients; None: as configured.
    """

    name: str
    build: Callable[[int], nn.Module]
    inputs: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    classes: int
    problem: Problem | None = None


def named_subject(dataset: str, model: str) -> Subject:
    """A network of the zoo; without a name the usual one of the data set."""
    data = load_dataset(dataset)
    name = model or DEFAULT_MODEL[dataset]
    return Subject(name, lambda seed: build_model(name, seed=seed), data.train_images, data.train_labels, data.classes)


def own_subject(model: nn.Module, data: Any, clients: int) -> Subject:
    """A user's model, and its data split evenly over the clients.

    Args:
        model: where training starts; its output is one number per class.
        data: inputs and labels as two tensors or arrays.
        clients: how many share the data.
    """
    try:
        inputs, labels = (torch.as_tensor(each) for each in data)
    except (TypeError, ValueError):
        raise InvalidInput("data", f"is a {type(data).__name__}", "return inputs and labels as two tensors") from None
    if labels.is_floating_point() or labels.ndim != 1 or len(labels) != len(inputs):
        raise InvalidInput("data", "has labels that are no classes", "return one whole number per input")
    parts = [(inputs[client::clients].float(), labels[client::clients].long()) for client in range(clients)]
    if not all(len(part) for _, part in parts):
        raise InvalidInput("data", f"has {len(inputs)} samples for {clients} clients", "return more")
    problem = own_problem(model, parts, None)
    return Subject(
        type(model).__name__,
        lambda _: copy.deepcopy(model),
        inputs.float().numpy(),
        labels.long().numpy(),
        problem.classes,
        problem,
    )


def call_from_file(place: str, function: str | None = None) -> Any:
    """Call a function without arguments of a Python file.

    Args:
        place: FILE.py:FUNCTION.
        function: instead of the function that `place` names.
    """
    path, _, named = place.partition(":")
    name = function or named
    space: dict[str, Any] = {"__name__": "sensecrypt_advised", "__file__": path}
    try:
        exec(compile(Path(path).read_bytes(), path, "exec"), space)  # noqa: S102 (the user's own file)
        return space[name]()
    except OSError as error:
        raise InvalidInput(path, f"cannot be read ({error.strerror})", "give FILE.py:FUNCTION") from None
    except KeyError:
        raise InvalidInput(path, f"has no function {name!r}", f"define {name}() there") from None
    except Exception as error:
        problem = f"fails: {type(error).__name__}: {str(error).splitlines()[:1]}"
        raise InvalidInput(f"{path}:{name}", problem, "look at this function") from error
