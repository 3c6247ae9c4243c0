from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sensecrypt import InvalidInput
from sensecrypt.attacks.matching import FILLS, cosine_distance, guess_gradient, make_target, squared_error
from sensecrypt.attacks.observation import Observation
from sensecrypt.models import build_model, get_vector, gradient_vector


def observe(build, images, labels, hidden=()):
    """What is seen of one gradient step on a batch, without the coordinates `hidden`."""
    model = build().eval()
    functional.cross_entropy(model(images), labels).backward()
    gradient = gradient_vector(model).astype(np.float64)
    gradient[np.asarray(hidden, dtype=np.int64)] = np.nan
    classes = int(model(images).shape[1])
    shape = tuple(images.shape[1:])
    return Observation(
        build=build,
        before=get_vector(model),
        gradient=gradient,
        samples=len(images),
        classes=classes,
        image_shape=shape,
    )


def digits_case(hidden=()):
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(5))
    labels = torch.tensor([1, 7, 7])
    return observe(partial(build_model, "digits-mlp", seed=1), images, labels, hidden), images.double(), labels


def test_the_truth_matches_and_soft_labels_of_one_class_are_that_class():
    observation, images, labels = digits_case(hidden=range(0, 2410, 3))
    target = make_target(observation, "mask-aware")
    assert squared_error(target, images, labels) < 1e-10
    assert cosine_distance(target, images, labels) < 1e-10
    soft = functional.one_hot(labels, 10).double()
    assert torch.allclose(guess_gradient(target, images, soft), guess_gradient(target, images, labels))
    assert squared_error(target, images.flip(1, 2), labels) > 1e-3


def test_hidden_coordinates_are_left_out_or_zero():
    hidden = np.arange(0, 2410, 3)
    observation, images, labels = digits_case(hidden)
    whole, _, _ = digits_case()
    aware, zero = (make_target(observation, fill) for fill in ("mask-aware", "zero-fill"))
    assert guess_gradient(aware, images, labels).numel() == 2410 - hidden.size
    assert guess_gradient(zero, images, labels).numel() == 2410
    lost, seen = np.sum(whole.gradient[hidden] ** 2), np.nansum(observation.gradient**2)
    assert squared_error(zero, images, labels).item() == pytest.approx(lost / seen, rel=1e-4)
    assert cosine_distance(zero, images, labels).item() == pytest.approx(1 - np.sqrt(seen / (seen + lost)), rel=1e-4)


def test_the_error_is_relative_and_the_loss_differentiable():
    observation, images, labels = digits_case()
    target = make_target(observation, "mask-aware")
    guess = (images + 0.1).requires_grad_()
    value = squared_error(target, guess, labels)
    (slope,) = torch.autograd.grad(value, [guess])
    assert slope.abs().max() > 0
    by_hand = guess_gradient(target, guess, labels).detach().numpy() - observation.gradient
    assert value.item() == pytest.approx(np.sum(by_hand**2) / np.sum(observation.gradient**2))


@pytest.mark.parametrize("fill", FILLS)
def test_nothing_visible_gives_finite_losses(fill):
    observation, images, labels = digits_case(hidden=range(2410))
    target = make_target(observation, fill)
    assert torch.isfinite(squared_error(target, images, labels))
    assert cosine_distance(target, images, labels).item() == 1.0


def test_a_parameter_that_is_not_used_has_gradient_zero():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.idle = nn.Parameter(torch.ones(3))
            self.used = nn.Linear(4, 2)

        def forward(self, x):
            return self.used(x.flatten(1))

    observation = Observation(
        build=Idle, before=get_vector(Idle()), gradient=np.ones(13), samples=1, classes=2, image_shape=(1, 2, 2)
    )
    gradient = guess_gradient(make_target(observation, "zero-fill"), torch.ones(1, 1, 2, 2).double(), torch.tensor([0]))
    assert gradient[:3].tolist() == [0, 0, 0]


def test_an_unknown_fill_is_named():
    with pytest.raises(InvalidInput) as error:
        make_target(digits_case()[0], "median-fill")
    assert error.value.argument == "fill"
