"""FedML-HE's sensitivity: how much the gradient of each parameter depends on the label (Jin et al. 2023).

For parameter w_m it is the mean over samples of |∂/∂y (∂ℓ/∂w_m)| at the true label: ℓ is the cross-entropy with a
soft label vector y, one-hot for the true label, and the derivative is with respect to the true label's entry of y.
The publication uses one backward pass per parameter and sample. But the derivative of all gradients along one direction
of y takes a single forward-mode pass over the backward pass, here for many samples at once.

Cross-entropy is linear in y, so this equals the mean of the absolute gradients of each sample's loss. It differs from
the absolute mean gradient, in which samples cancel.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, jvp, vmap

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.models import layout, parameter_count, statistics_count

_GRADIENTS = 2**21  # numbers at once by default: 8 MB per copy, of which torch.func makes several; larger is slower


def warm_up() -> None:
    """Make PyTorch load its forward mode, which takes seconds once per process and must not count as a client's work.

    While loading, PyTorch warns about its own use of a deprecated function; the caller cannot prevent it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(1),), (torch.zeros(1),))


def jacobian_map(
    model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, *, chunk: int | None = None
) -> checks.FloatVector:
    """Return the map over all samples, with the model in evaluation mode: one number per parameter, in vector order.

    Args:
        model: returns logits.
        inputs: samples × the shape of one sample.
        labels: the class of each sample.
        chunk: samples at once, which bounds the memory and changes only the last digits; None: chosen by the size of
            the model.
    """
    soft = _one_hot(model, inputs, labels)
    warm_up()
    suitable = max(1, _GRADIENTS // parameter_count(model))
    step = suitable if chunk is None else checks.whole("chunk", chunk, low=1)
    names = [name for name, _ in layout(model)]
    weights = {name: model.get_parameter(name).detach() for name in names}

    def of_sample(sample: torch.Tensor, label: torch.Tensor) -> dict[str, torch.Tensor]:
        def gradient(varied: torch.Tensor) -> Any:
            return grad(lambda given: _loss(functional_call(model, given, (sample[None],))[0], varied))(weights)

        along_label: dict[str, torch.Tensor] = jvp(gradient, (label,), (label,))[1]
        return along_label

    total = torch.zeros(parameter_count(model), dtype=torch.float64)
    for start in range(0, len(labels), step):
        batch = slice(start, start + step)
        derivatives = vmap(of_sample)(inputs[batch], soft[batch])
        total += torch.cat([derivatives[name].abs().sum(dim=0, dtype=torch.float64).reshape(-1) for name in names])
    found = np.asarray((total / len(labels)).numpy(), dtype=np.float64)
    return np.concatenate([found, np.zeros(statistics_count(model))])


def jacobian_as_published(
    model: nn.Module, sample: torch.Tensor, label: torch.Tensor, parameters: checks.IntVector
) -> checks.FloatVector:
    """Return |∂/∂y (∂ℓ/∂w_m)| of one sample for some parameters, one backward pass each: a test of `jacobian_map`."""
    [soft] = _one_hot(model, sample[None], label[None])
    soft.requires_grad_()
    weights = [model.get_parameter(name) for name, _ in layout(model)]
    gradients = torch.autograd.grad(_loss(model(sample[None])[0], soft), weights, create_graph=True)
    ends = np.cumsum([weight.numel() for weight in weights])
    found = np.empty(parameters.size)
    for place, parameter in enumerate(parameters):
        layer = int(np.searchsorted(ends, parameter, side="right"))
        entry = gradients[layer].reshape(-1)[int(parameter - ends[layer])]  # from the layer's end
        [derivative] = torch.autograd.grad(entry, soft, retain_graph=True)
        found[place] = abs(float(derivative[label]))
    return found


def _loss(logits: torch.Tensor, soft: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of one sample with a soft label vector."""
    return -(soft * torch.log_softmax(logits, dim=0)).sum()


def _one_hot(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the labels as one-hot vectors over the model's classes."""
    if len(labels) == 0 or len(inputs) != len(labels):
        raise InvalidInput("labels", f"has {len(labels):,} elements for {len(inputs):,} inputs", "pass one per input")
    model.eval()
    with torch.no_grad():
        logits = model(inputs[:1])
    classes = logits.shape[1]
    if labels.min() < 0 or labels.max() >= classes:
        raise InvalidInput("labels", f"has a class outside 0 … {classes - 1}", "pass classes of the model")
    return nn.functional.one_hot(labels, classes).to(logits.dtype)
