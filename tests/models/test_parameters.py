from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from sensecrypt import InvalidInput
from sensecrypt.models import build_model, get_vector, gradient_vector, layout, parameter_count, set_vector


@pytest.fixture
def model():
    return build_model("digits-mlp", seed=3)


def test_the_vector_is_pytorchs(model):
    vector = get_vector(model)
    assert vector.dtype == np.float32
    assert np.array_equal(vector, parameters_to_vector(model.parameters()).detach().numpy())


def test_what_is_set_is_what_is_got_and_nothing_is_shared(model):
    vector = np.arange(2410, dtype=np.float32)
    set_vector(model, vector)
    vector[:] = -1
    got = get_vector(model)
    assert np.array_equal(got, np.arange(2410))
    got[:] = -1
    assert get_vector(model)[5] == 5
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in model.parameters())


def test_two_models_with_one_vector_agree(model):
    other = build_model("digits-mlp", seed=4)
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(model(images), other(images))
    set_vector(other, get_vector(model))
    assert torch.equal(model(images), other(images))


def test_layout_says_where_a_parameter_lies(model):
    assert layout(model) == [("1.weight", (32, 64)), ("1.bias", (32,)), ("3.weight", (10, 32)), ("3.bias", (10,))]
    assert sum(int(np.prod(shape)) for _, shape in layout(model)) == parameter_count(model)


def test_frozen_parameters_are_no_part(model):
    model[1].weight.requires_grad_(False)
    before = model[1].weight.clone()
    assert parameter_count(model) == 2410 - 32 * 64
    set_vector(model, np.zeros(362))
    assert torch.equal(model[1].weight, before)
    assert not get_vector(model).any()


def test_gradients_stand_where_their_parameters_do(model):
    (model[3].bias.sum() * 2 + model[1].weight.sum() + 0 * sum(p.sum() for p in model.parameters())).backward()
    gradient = gradient_vector(model)
    assert gradient.dtype == np.float32
    assert (gradient[:2048] == 1).all()
    assert (gradient[2048:-10] == 0).all()
    assert (gradient[-10:] == 2).all()


def test_a_missing_gradient_is_named(model):
    model[1].weight.sum().backward()
    with pytest.raises(InvalidInput, match=r"1\.bias") as error:
        gradient_vector(model)
    assert error.value.argument == "model"


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        (np.zeros(2409), "2,409 elements, but the model has 2,410"),
        (np.zeros(2411), "2,411"),
        ([], "empty"),
        (np.where(np.arange(2410) == 7, np.nan, 0), "first at index 7"),
        (np.where(np.arange(2410) == 7, np.inf, 0), "first at index 7"),
        (np.full(2410, 1e39), "beyond float32"),
        ("words", "elements of type"),
    ],
)
def test_a_vector_that_does_not_fit_changes_nothing(model, vector, problem):
    before = get_vector(model)
    with pytest.raises(InvalidInput, match=problem) as error:
        set_vector(model, vector)
    assert error.value.argument == "vector"
    assert np.array_equal(get_vector(model), before)


def test_a_model_that_cannot_learn():
    with pytest.raises(InvalidInput, match="no trainable"):
        get_vector(torch.nn.ReLU())
