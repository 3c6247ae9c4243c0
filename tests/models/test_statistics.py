"""Buffers in the vector: which travel, what they are scaled by, and what no average can be taken of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sensecrypt import InvalidInput
from sensecrypt.models import (
    always_encrypt,
    constants,
    get_vector,
    gradient_vector,
    named_arrays,
    parameter_count,
    require_constants,
    set_vector,
    statistics_count,
    vector_layout,
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("far", torch.tensor([float("-inf"), 0.0]))
        self.register_buffer("turns", torch.ones(2, dtype=torch.complex64))
        self.register_buffer("large", torch.tensor([2**40]))
        self.register_buffer("positions", torch.arange(5))
        self.register_buffer("table", torch.ones(7), persistent=False)
        self.register_buffer("again", self.norm.running_mean)

    def forward(self, x):
        return self.norm(self.layer(x))


def test_what_travels_and_what_stays():
    model = Net()
    names = [name for name, _ in vector_layout(model)]
    assert names[4:] == ["positions", "again", "norm.running_var", "norm.num_batches_tracked"]
    assert statistics_count(model) == 5 + 4 + 4 + 1
    assert get_vector(model).size == parameter_count(model) + 14
    assert set(constants(model)) == {"mask", "far", "turns", "large"}


def test_values_come_back_whatever_their_size_and_type():
    model, other = Net(), Net()
    model.norm.running_var[:] = torch.tensor([1e-5, 0.3, 1e3, 1e6])
    model.norm.running_mean[:] = torch.tensor([-70.0, 0.0, 1e-3, 5.0])
    model.norm.num_batches_tracked += 123_456
    set_vector(other, get_vector(model))
    for name, buffer in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], buffer), name
    assert named_arrays(other)["norm.running_var"].tolist() == pytest.approx([1e-5, 0.3, 1e3, 1e6])


@pytest.mark.parametrize(
    ("counts", "weights", "told"), [((3, 2, 2), (0.4, 0.3, 0.3), 3), ((7, 7, 7), (0.2, 0.3, 0.5), 7)]
)
def test_a_mean_of_counters_is_rounded_up(counts, weights, told):
    model, vectors = nn.BatchNorm1d(2), []
    for count in counts:
        model.num_batches_tracked.fill_(count)
        vectors.append(get_vector(model))
    set_vector(model, sum(weight * each for weight, each in zip(weights, vectors, strict=True)))
    assert int(model.num_batches_tracked) == told


def test_statistics_have_no_gradient_and_are_encrypted_first():
    model = Net()
    model(torch.randn(5, 3)).square().sum().backward()
    many = parameter_count(model)
    assert not gradient_vector(model)[many:].any()
    assert gradient_vector(model).size == get_vector(model).size
    assert always_encrypt(model, 0)[many:].all()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda model: model.mask.logical_not_(), "changes mask in training, but torch.bool cannot be averaged"),
        (
            lambda model: model.norm.running_var.fill_(float("nan")),
            r"not finite after training, the first in norm\.running_var",
        ),
    ],
)
def test_what_changes_and_has_no_mean_is_named(change, told):
    model = Net()
    before = constants(model)
    require_constants(model, before)
    change(model)
    with pytest.raises(InvalidInput, match=told):
        require_constants(model, before)


def test_a_model_without_buffers_has_the_vector_that_it_had():
    model = nn.Linear(3, 2)
    assert np.array_equal(get_vector(model), nn.utils.parameters_to_vector(model.parameters()).detach().numpy())
