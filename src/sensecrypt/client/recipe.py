"""What a user says of training: loss, optimiser, or a whole training function; and what models are measured by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sensecrypt.client.batches import Batch, described, map_tensors
from sensecrypt.errors import InvalidInput

Loss = Callable[[Any, Batch], torch.Tensor]  # of a model's output and the batch
Metric = Callable[[Any, Batch], Any]  # one figure of a model's output and the batch
Fit = Callable[[nn.Module, Any, int], Any]  # trains a model on a client's own data, in place, in one round
Evaluate = Callable[[nn.Module, Any], Mapping[str, float]]  # named figures of a model on a user's own data
MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
MakeScheduler = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How all clients of a run train.

    Attributes:
        loss: of a model's output and the batch; None: the output's own, if it has one, else cross-entropy.
        fit: the whole of a client's local training, in place of the loop here.
        optimizer: from parameters to an optimiser; None: stochastic gradient descent as configured.
        scheduler: from an optimiser to a schedule that has a step per round.
        proximal_mu: μ of FedProx, which draws the model to where the round started.
        metrics: named figures of a model's output and a batch, averaged over samples.
        evaluate: named figures of a model on test data, in place of all others.
        device: where models train.
    """

    loss: Loss | None = None
    fit: Fit | None = None
    optimizer: MakeOptimizer | None = None
    scheduler: MakeScheduler | None = None
    proximal_mu: float = 0.0
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    evaluate: Evaluate | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def by_difference(self) -> bool:
        """Whether the difference that training made stands for the gradient: of `fit` alone nothing else is known."""
        return self.fit is not None and self.loss is None

    @property
    def plain(self) -> bool:
        """Whether models are classifiers on the CPU that learn by cross-entropy."""
        return self.loss is None and self.device.type == "cpu"

    def loss_of(self, output: Any, batch: Batch) -> torch.Tensor:
        """The loss of one batch."""
        if self.loss is not None:
            return _scalar(_call(self.loss, output, batch))
        own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if own is not None:
            return _scalar(own)
        target = target_of(batch)
        if classifies(output, target):
            return nn.functional.cross_entropy(output, target.to(torch.int64))
        told = f"of shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else type(output).__name__
        problem = f"is not given, and cross-entropy is not for outputs {told} with a batch of {described(batch)}"
        raise InvalidInput("loss", problem, "pass loss=, such as nn.MSELoss() or a function of output and batch")


PLAIN = Recipe()


def output_of(model: nn.Module, batch: Batch) -> Any:
    """What a model makes of a batch: of a tuple but for its last part, or of what of a dict it has arguments for."""
    kind = _float_type(model)

    def fitting(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(kind) if kind is not None and tensor.is_floating_point() else tensor

    if isinstance(batch, Mapping):
        return model(**map_tensors(fitting, {key: batch[key] for key in _taken(model, batch)}))
    if isinstance(batch, (tuple, list)):
        return model(*map_tensors(fitting, tuple(batch[:-1] if len(batch) > 1 else batch)))
    return model(map_tensors(fitting, batch))


def target_of(batch: Batch) -> Any:
    """What is to be learned of a batch: the last part of a tuple, the labels of a dict, the batch itself."""
    if isinstance(batch, Mapping):
        return next((batch[key] for key in ("labels", "label", "target", "targets", "y") if key in batch), None)
    if isinstance(batch, (tuple, list)):
        return batch[-1] if len(batch) else None
    return batch


def classifies(output: Any, target: Any) -> bool:
    """Whether these are the scores of classes, and whole-numbered labels, a row per sample."""
    both = isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor)
    whole = both and not target.is_floating_point() and target.dtype != torch.bool
    return bool(whole and output.ndim == 2 and target.ndim == 1 and len(output) == len(target))


def measured(figure: Metric, output: Any, batch: Batch) -> float:
    """A metric of one batch as a number."""
    return float(_call(figure, output, batch))


def _call(function: Callable[..., Any], output: Any, batch: Batch) -> Any:
    """PyTorch's own losses get output and target; any other function gets output and batch."""
    torchs = isinstance(function, nn.Module) or getattr(function, "__module__", "") == "torch.nn.functional"
    return function(output, target_of(batch) if torchs else batch)


def _scalar(loss: Any) -> torch.Tensor:
    problem = ""
    if not isinstance(loss, torch.Tensor):
        problem = f"is a {type(loss).__name__}"
    elif loss.numel() != 1:
        problem = f"has shape {tuple(loss.shape)}"
    elif torch.is_grad_enabled() and not loss.requires_grad:
        problem = "does not follow from the model's parameters"
    if problem:
        raise InvalidInput("loss", problem, "return one number per batch, computed from the model's output")
    number: torch.Tensor = loss.reshape(())
    return number


def _float_type(model: nn.Module) -> torch.dtype | None:
    """The floating-point type of all of a model's parameters, if they have one."""
    kinds = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return kinds.pop() if len(kinds) == 1 else None


def _taken(model: nn.Module, batch: Mapping[str, Any]) -> list[str]:
    arguments = inspect.signature(model.forward).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in arguments.values()):
        return list(batch)
    return [key for key in batch if key in arguments]
