from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sensecrypt import InvalidInput
from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.matching import (
    FILLS,
    cosine_distance,
    fills_for,
    guess_gradient,
    make_target,
    squared_error,
)
from sensecrypt.lab.attacks.observation import Observation
from sensecrypt.models import build_model, get_vector, gradient_vector


def observe(build, images, labels, hidden=(), *, clear=False):
    """What is seen of one gradient step on a batch, without the coordinates `hidden`; with `clear`, Γ of all."""
    model = build().eval()
    functional.cross_entropy(model(images), labels).backward()
    gradient = gradient_vector(model).astype(np.float64)
    sensitivity = np.abs(get_vector(model) * gradient) if clear else None
    gradient[np.asarray(hidden, dtype=np.int64)] = np.nan
    classes = int(model(images).shape[1])
    shape = tuple(images.shape[1:])
    return Observation(
        build=build,
        before=get_vector(model),
        gradient=gradient,
        samples=len(images),
        classes=classes,
        sensitivity=sensitivity,
        image_shape=shape,
    )


def digits_case(hidden=(), *, clear=False):
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(5))
    labels = torch.tensor([1, 7, 7])
    build = partial(build_model, "digits-mlp", seed=1)
    return observe(build, images, labels, hidden, clear=clear), images.double(), labels


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


@pytest.mark.parametrize("fill", FILLS[:2])
def test_nothing_visible_gives_finite_losses(fill):
    observation, images, labels = digits_case(hidden=range(2410))
    target = make_target(observation, fill)
    assert torch.isfinite(squared_error(target, images, labels))
    assert cosine_distance(target, images, labels).item() == 1.0


def test_sizes_are_matched_whatever_the_sign():
    observation, images, labels = digits_case(hidden=range(2410), clear=True)
    whole, _, _ = digits_case()
    target = make_target(observation, "sensitivity")
    assert target.gradient.numel() == 0
    assert np.allclose(target.sizes.numpy(), np.abs(whole.gradient[target.positions.numpy()]), rtol=1e-5, atol=1e-12)
    assert squared_error(target, images, labels) < 1e-10
    assert cosine_distance(target, images, labels) < 1e-10
    assert squared_error(target, images.flip(1, 2), labels) > 1e-3
    signed = target.tagged_by(guess_gradient(target, images, labels))
    assert np.allclose(signed.gradient.numpy(), whole.gradient[target.positions.numpy()], rtol=1e-5, atol=1e-12)
    assert signed.sizes.numel() == 0
    assert squared_error(signed, images, labels) < 1e-10


def test_near_the_truth_sizes_count_as_numbers_do():
    whole, images, labels = digits_case()
    observation, _, _ = digits_case(hidden=range(2410), clear=True)
    target = make_target(observation, "sensitivity")
    signed = target.tagged_by(torch.from_numpy(whole.gradient)[target.positions])
    near = images + 1e-4
    ratio = (squared_error(target, near, labels) / squared_error(signed, near, labels)).item()
    assert 0.5 < ratio <= 1  # below 1 by what the rounding takes from small numbers


def test_signs_that_are_seen_count_and_parameters_of_zero_tell_nothing():
    def build():
        network = build_model("digits-mlp", seed=1)
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
        return network

    hidden = np.arange(0, 2410, 3)
    _, images, labels = digits_case()
    observation = observe(build, images.float(), labels, hidden, clear=True)
    dark = hidden[observation.before[hidden] == 0]
    assert dark.size
    target = make_target(observation, "sensitivity")
    assert target.gradient.numel() == 2410 - hidden.size
    assert target.sizes.numel() == hidden.size - dark.size
    assert not np.isin(dark, target.positions.numpy()).any()
    assert squared_error(target, images, labels) < 1e-10
    assert torch.isfinite(squared_error(target, images * 0, labels))


def test_the_ways_that_make_a_difference():
    assert fills_for(digits_case(clear=True)[0]) == ("mask-aware",)
    assert fills_for(digits_case(hidden=[1])[0]) == ("zero-fill", "mask-aware")
    assert fills_for(digits_case(hidden=[1], clear=True)[0]) == FILLS


def test_sizes_need_sensitivities():
    with pytest.raises(NotApplicable) as error:
        make_target(digits_case(hidden=[1])[0], "sensitivity")
    assert error.value.argument == "observation"


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
