from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from sensecrypt.data import load_dataset
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.synthetic import synthetic_client
from tests.lab.attacks.masks import hide_by


@cache
def embedded():
    return load_dataset("digits")


def client(**changes):
    digits = embedded()
    arguments = {"classes": 10, "samples": 20, "seed": 3, "public_per_class": 10, **changes}
    return synthetic_client("digits-mlp", digits.train_images, digits.train_labels, **arguments)


def test_one_step_gives_the_gradient_of_all_samples_at_the_model_sent():
    found = client()
    model = found.observation.model()
    model.zero_grad()
    torch.autograd.backward(torch.nn.functional.cross_entropy(model(found.inputs), found.labels))
    expected = np.concatenate([parameter.grad.numpy().ravel() for parameter in model.parameters()])
    assert found.gradient == pytest.approx(expected, abs=1e-7)
    assert found.sensitivity == pytest.approx(np.abs(found.observation.before * expected), abs=1e-7)
    assert found.counts.tolist() == np.bincount(found.labels, minlength=10).tolist()
    assert found.counts.sum() == 20


def test_several_steps_give_their_mean():
    one, three = client(learning_rate=1e-6), client(learning_rate=1e-6, steps=3)
    assert three.gradient == pytest.approx(one.gradient, abs=1e-5)  # hardly moving, every step has the same gradient
    epoch = client(steps=4, minibatch=5, learning_rate=1e-6)
    assert epoch.gradient == pytest.approx(one.gradient, abs=1e-5)  # four batches of five are all samples once
    far = client(learning_rate=0.5, steps=3)
    assert np.abs(far.gradient - one.gradient).max() > 1e-2
    assert far.sensitivity == pytest.approx(one.sensitivity, abs=1e-6)  # always at the model sent


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_classes_are_as_asked(classes):
    assert (client(distribution=str(classes), samples=40).counts > 0).sum() == classes


@pytest.mark.parametrize("wrong", ["0", "11", "uniform", "-1", "2.5"])
def test_other_distributions_are_refused(wrong):
    with pytest.raises(InvalidInput, match="distribution"):
        client(distribution=wrong)


def test_the_public_data_has_every_class_and_none_of_the_clients_samples():
    found = client()
    inputs, labels = found.observation.public
    assert np.bincount(labels).tolist() == [10] * 10
    own = {sample.numpy().tobytes() for sample in found.inputs}
    digits = embedded()
    assert len(np.unique(digits.train_images, axis=0)) == len(digits.train_images)  # so equal bytes: the same sample
    assert not own & {sample.numpy().tobytes() for sample in inputs}


def test_all_follows_from_the_seed():
    assert client().gradient.tobytes() == client().gradient.tobytes()
    assert client().gradient.tobytes() != client(seed=4).gradient.tobytes()


def test_hidden_coordinates_are_not_in_the_observation():
    plain = client()
    hidden = hide_by("high", plain, 0.3)
    seen = client(trained=2).observe(hidden)
    assert np.isnan(seen.gradient).tolist() == hidden.tolist()
    assert np.isnan(seen.stale).tolist() == hidden.tolist()
    assert seen.sensitivity is None


def test_stale_values_are_what_the_upload_of_the_round_before_gives():
    first = client()
    assert not first.last_upload.any()  # the initial model is all that was exposed
    later = client(trained=1, learning_rate=0.1)
    moved = (later.observation.before.astype(np.float64) - first.observation.before) / 0.1
    assert later.last_upload == pytest.approx(first.gradient + moved, abs=1e-6)
    seen = later.observe(np.ones(later.gradient.size, bool), hidden_before=np.zeros(later.gradient.size, bool))
    assert seen.stale == pytest.approx(later.last_upload)
