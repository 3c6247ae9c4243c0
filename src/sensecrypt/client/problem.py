"""The learning problem of a run: a model, each client's data, the training and the metrics."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from sensecrypt import checks
from sensecrypt.client.checking import check_data, check_model, check_one_step, check_overlap
from sensecrypt.client.data import ClientData, as_data, is_factory
from sensecrypt.client.training import PLAIN, Recipe, as_tensor
from sensecrypt.config import RunConfig
from sensecrypt.data import load_dataset, make_partition
from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.models import DEFAULT_MODEL, always_encrypt, build_model
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.types import BoolVector

Samples = tuple[torch.Tensor, torch.Tensor]
_WEIGHT_STEPS = 10**6


@dataclass(frozen=True, eq=False)
class Problem:
    """The learning problem of all clients of a run on one machine.

    Attributes:
        build: returns the initial model, the same on every call.
        clients: each client's data; for a configured data set, inputs and labels.
        test: test data; None: there are none.
        classes: number of classes; 0: the model does not classify.
        recipe: how to train and what to measure.
        client_tests: each client's test data for its cluster's model; None: there are none.
        weights: numbers used as every client's number of samples; None: the real numbers.
    """

    build: Callable[[], nn.Module]
    clients: Sequence[Any]
    test: Any
    classes: int
    recipe: Recipe = PLAIN
    client_tests: Sequence[Any] | None = None
    weights: Sequence[int] | None = None

    @property
    def loads(self) -> bool:
        """Whether clients' data are loaded on demand."""
        return isinstance(self.clients, Loading)


class Loading(Sequence[ClientData]):
    """Clients' data, each loaded on demand and not kept."""

    def __init__(self, argument: str, load: Callable[[int], Any], many: int) -> None:
        """Store the function that loads the data of `many` clients."""
        self._argument, self._load, self._many = argument, load, many

    def __len__(self) -> int:
        return self._many

    def __getitem__(self, client: Any) -> Any:
        where = f"{self._argument}[{client}]"
        if not 0 <= client < self._many:
            raise IndexError(client)
        try:
            own = self._load(client)
        except SenseCryptError:
            raise
        except Exception as error:
            problem = f"cannot be loaded: {type(error).__name__}: {str(error).splitlines()[:1]}"
            raise InvalidInput(where, problem, "check the function that loads it") from error
        return as_data(own, where)


def configured_problem(config: RunConfig) -> Problem:
    """Return the problem of a configuration's data set, partition and model."""
    data = load_dataset(config.problem.dataset)
    parts = make_partition(
        config.problem.partition,
        data.train_labels,
        config.problem.clients,
        rng=derive_rng(config.problem.seed, "partition"),
    )
    name = config.problem.model or DEFAULT_MODEL[config.problem.dataset]
    return Problem(
        partial(build_model, name, seed=derive_seed(config.problem.seed, "model")),
        [(as_tensor(data.train_images[part]), torch.from_numpy(data.train_labels[part])) for part in parts],
        (as_tensor(data.test_images), torch.from_numpy(data.test_labels)),
        data.classes,
    )


@dataclass(frozen=True, eq=False)
class Share:
    """One client's part of a problem.

    Attributes:
        build: returns the initial model, the same for every client.
        data: training data, in any form that `sensecrypt.federate` accepts.
        test: test data.
        classes: number of classes; 0: the model does not classify.
    """

    build: Callable[[], nn.Module]
    data: Any
    test: Any
    classes: int


def configured_share(config: RunConfig, client: int) -> Share:
    """Return a client's part of the configured problem."""
    problem = configured_problem(config)
    return Share(problem.build, problem.clients[client], problem.test, problem.classes)


def always_of(config: RunConfig, model: nn.Module, classes: int) -> BoolVector | None:
    """Return the parameters that a run always encrypts; None: there are none."""
    if config.selection.always_encrypt != "classifier" or not config.policy.heeds_always:
        return None
    return always_encrypt(model, classes)


def own_problem(
    model: nn.Module,
    clients: Sequence[Any],
    test: Any,
    *,
    load: Callable[[Any], Any] | None = None,
    recipe: Recipe = PLAIN,
    client_tests: Sequence[Any] | None = None,
    weights: Sequence[float] | None = None,
) -> Problem:
    """Check a user's model and data, and return them as a problem.

    Args:
        model: the initial model.
        clients: each client's data, or functions that return them; with `load`, any identifiers.
        test: test data; None: none.
        load: returns the data of an element of `clients`.
        recipe: how to train and what to measure.
        client_tests: each client's test data for its cluster's model, or functions that return them; None: none.
        weights: the clients' weights in every mean; None: their numbers of samples.
    """
    check_model(model)
    own = _all_data("clients", clients, load)
    tests = None if client_tests is None else _all_data("client_tests", client_tests, None)
    if tests is not None and len(tests) != len(own):
        problem = f"has {len(tests)} elements, but there are {len(own)} clients"
        raise InvalidInput("client_tests", problem, "pass one per client, or none")
    first = own[0]
    check_data("clients[0]", first, classes=0, like=None, recipe=recipe)
    classes = check_one_step(model, first, recipe)
    check_data("clients[0]", first, classes=classes, like=None, recipe=recipe)
    held_out = None if test is None else as_data(test() if is_factory(test) else test, "test")
    if not isinstance(own, Loading):
        for index, data in enumerate(own):
            check_data(f"clients[{index}]", data, classes=classes, like=first, recipe=recipe)
    if held_out is not None and recipe.evaluate is None:
        check_data("test", held_out, classes=classes, like=first, recipe=recipe)
        if not isinstance(own, Loading):
            check_overlap(own, held_out)
    if recipe.fit is not None and not isinstance(own, Loading):  # the model's output is not known, so labels count
        pairs = [each.pair for each in [*own, *([] if held_out is None else [held_out])]]
        classes = max((1 + int(pair[1].max()) for pair in pairs if pair is not None), default=0)
    shares = None if weights is None else _whole(weights, len(own))
    return Problem(partial(copy.deepcopy, model), own, held_out, classes, recipe, tests, shares)


def _all_data(argument: str, clients: Any, load: Callable[[Any], Any] | None) -> Sequence[ClientData]:
    """Return all clients' data; if they are functions, data are loaded on demand."""
    one = isinstance(clients, (str, bytes, torch.Tensor, Dataset, DataLoader))
    if one or not hasattr(clients, "__len__") or not hasattr(clients, "__getitem__"):
        raise InvalidInput(argument, f"is a {type(clients).__name__}", "pass a list with one element per client")
    if not len(clients):
        raise InvalidInput(argument, "is empty", "pass the data of at least one client")
    if load is not None:
        return Loading(argument, lambda client: load(clients[client]), len(clients))
    made = [is_factory(each) for each in clients]
    if all(made):
        return Loading(argument, lambda client: clients[client](), len(clients))
    if any(made):
        raise InvalidInput(argument, "has both data and functions that return data", "pass only one kind")
    return [as_data(each, f"{argument}[{index}]") for index, each in enumerate(clients)]


def _whole(weights: Sequence[float], many: int) -> list[int]:
    """Return the weights as integers in the same proportions, to six digits."""
    if len(weights) != many:
        problem = f"has {len(weights)} elements, but there are {many} clients"
        raise InvalidInput("weights", problem, "pass one per client")
    for each in weights:
        checks.number("weights", each, low=0.0, high=1e12, open_low=True)
    if all(float(each).is_integer() for each in weights):
        return [int(each) for each in weights]
    return [max(1, round(each / max(weights) * _WEIGHT_STEPS)) for each in weights]
