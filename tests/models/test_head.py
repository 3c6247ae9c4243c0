"""Label attacks read the classifier; a network without one is refused, and says so."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.fills import zero_fill
from sensecrypt.lab.attacks.observation import Observation
from sensecrypt.models import always_encrypt, find_head, get_vector


def without_head() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 10, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.parametrize(
    "model",
    [without_head(), nn.Sequential(nn.Flatten(), nn.Linear(4, 9)), nn.Sequential(nn.Linear(4, 10), nn.BatchNorm1d(10))],
    ids=["convolution", "other-classes", "normalised"],
)
def test_a_model_without_a_linear_head(model):
    with pytest.raises(InvalidInput, match="does not end in a dense layer of 10 outputs"):
        find_head(model, 10)


def test_an_attack_on_one_is_a_clear_error():
    before = get_vector(without_head())
    observation = Observation(build=without_head, before=before, gradient=np.ones(before.size), samples=3, classes=10)
    with pytest.raises(InvalidInput, match="does not end in a dense layer"):
        zero_fill(observation)


def test_it_has_no_classifier_to_hide():
    model = without_head()
    nn.init.zeros_(model[0].bias)
    assert np.flatnonzero(always_encrypt(model, 10)).tolist() == list(range(90, 100))


@pytest.mark.parametrize("bias", [True, False])
def test_the_head_is_where_the_last_layer_is(bias):
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 10, bias=bias))
    head, vector = find_head(model, 10), get_vector(model)
    assert np.array_equal(vector[head.weight], model[-1].weight.detach().numpy())
    assert head.bias.size == (10 if bias else 0)
