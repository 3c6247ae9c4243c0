from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sensecrypt import InvalidInput
from sensecrypt.client.jacobian import jacobian_as_published, jacobian_map
from sensecrypt.models import build_model, mean_gradient, parameter_count

SAMPLES = 6


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


def conv() -> nn.Module:
    """All that the paper's networks are made of, the running statistics of batch normalisation included."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d((1, 2)), nn.Flatten(), nn.Linear(2, 3)
    )


def frozen() -> nn.Module:
    model = dense()
    model[1].weight.requires_grad_(False)
    return model


def case(make, seed: int = 0) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make(), torch.randn(SAMPLES, 1, 2, 3), torch.randint(0, 3, (SAMPLES,))


@pytest.mark.parametrize("make", [dense, conv, frozen])
def test_the_map_is_that_of_the_published_double_loop(make):
    model, inputs, labels = case(make)
    model.eval()  # before the loop: the map itself sees to this
    parameters = np.arange(parameter_count(model))
    published = [jacobian_as_published(model, *sample, parameters) for sample in zip(inputs, labels, strict=True)]
    found = jacobian_map(model.train(), inputs, labels)
    assert found.dtype == np.float64
    assert np.count_nonzero(found) > parameters.size / 2
    np.testing.assert_allclose(found[: parameters.size], np.mean(published, axis=0), rtol=1e-4, atol=1e-7)
    assert not found[parameters.size :].any()  # statistics


def test_for_one_dense_layer_it_is_the_known_formula():
    model, inputs, labels = case(lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 3)))
    x, y = inputs.reshape(SAMPLES, 6).double().numpy(), np.eye(3)[labels.numpy()]
    logits = x @ model[1].weight.detach().double().numpy().T + model[1].bias.detach().double().numpy()
    off = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - y  # ∂ℓ/∂logits
    expected = np.concatenate([np.abs(off[:, :, None] * x[:, None, :]).mean(axis=0).ravel(), np.abs(off).mean(axis=0)])
    np.testing.assert_allclose(jacobian_map(model, inputs, labels), expected, rtol=1e-4)


@pytest.mark.parametrize("chunk", [1, 4, SAMPLES, 100])
def test_the_chunk_does_not_matter(chunk):
    model, inputs, labels = case(conv)
    found = jacobian_map(model, inputs, labels, chunk=chunk)
    np.testing.assert_allclose(found, jacobian_map(model, inputs, labels), rtol=1e-5, atol=1e-9)


def test_it_bounds_the_mean_gradient_in_which_samples_cancel():
    model = build_model("digits-mlp", seed=0)
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.random((40, 1, 8, 8), dtype=np.float32))
    labels = torch.from_numpy(rng.integers(0, 10, 40))
    found, gradient = jacobian_map(model, inputs, labels), np.abs(mean_gradient(model, inputs, labels))
    assert (found >= gradient - 1e-7).all()
    assert found.sum() > 2 * gradient.sum()
    np.testing.assert_allclose(
        jacobian_map(model, inputs[:1], labels[:1]), np.abs(mean_gradient(model, inputs[:1], labels[:1])), atol=1e-6
    )


def test_the_model_is_left_as_it_was():
    model, inputs, labels = case(conv)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    jacobian_map(model, inputs, labels)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("labels", [[], [0, 1], [0, 1, 2, 3, 0, 0], [-1] * 6])
def test_labels_that_do_not_fit_are_refused(labels):
    model, inputs, _ = case(dense)
    with pytest.raises(InvalidInput) as error:
        jacobian_map(model, inputs, torch.tensor(labels, dtype=torch.int64))
    assert error.value.argument == "labels"


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_chunk_of_no_samples_is_refused(chunk):
    with pytest.raises(InvalidInput) as error:
        jacobian_map(*case(dense), chunk=chunk)
    assert error.value.argument == "chunk"
