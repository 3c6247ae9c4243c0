from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from sensecrypt.data import load_dataset
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.cohort import (
    after_local_steps,
    batches_of_few_classes,
    client_of_round,
    mean_model,
    own_classes,
)
from sensecrypt.lab.attacks.fills import zero_fill
from sensecrypt.lab.attacks.scores import score_labels
from sensecrypt.lab.attacks.synthetic import samples_at
from sensecrypt.models import build_model, get_vector, mean_gradient, set_vector

BUILD = partial(build_model, "digits-mlp", seed=3)
DIGITS = load_dataset("digits")


def rng():
    return np.random.default_rng(5)


def few(k, clients=10, samples=30):
    return batches_of_few_classes(DIGITS.train_labels, clients, k, classes=10, samples=samples, rng=rng())


@pytest.mark.parametrize(("k", "own", "many"), [(10, 3, 3), (5, 5, 1), (2, 11, 1), (1, 21, 1)])
def test_a_batch_has_its_own_classes_equally_and_one_sample_of_each_other(k, own, many):
    batches = few(k)
    assert len(np.unique(np.concatenate(batches))) == sum(map(len, batches)) == 300
    for client, batch in enumerate(batches):
        counts = np.bincount(DIGITS.train_labels[batch], minlength=10)
        wanted = np.full(10, many)
        wanted[own_classes(client, k, 10)] = own
        assert counts.tolist() == wanted.tolist()


def test_a_class_that_runs_out_gives_what_it_has():
    labels = np.repeat(np.arange(4), 12)
    batches = batches_of_few_classes(labels, 4, 1, classes=4, samples=20, rng=rng())
    assert [len(batch) for batch in batches] == [3 + 9] * 4
    with pytest.raises(InvalidInput, match="samples of class 0"):
        batches_of_few_classes(labels, 13, 1, classes=4, samples=20, rng=rng())


def test_a_client_of_a_round_starts_from_the_rounds_model():
    before = get_vector(BUILD()) * 0.5
    data = samples_at(DIGITS.train_images, DIGITS.train_labels, few(2)[4])
    client = client_of_round(BUILD, before, data, classes=10, learning_rate=0.1)
    network = BUILD()
    set_vector(network, before)
    gradient = mean_gradient(network, *data)
    assert client.gradient == pytest.approx(gradient)
    assert client.sensitivity == pytest.approx(np.abs(before * gradient))
    assert client.weights == pytest.approx(before - 0.1 * gradient)
    assert client.counts.sum() == client.observation.samples == 30
    assert score_labels(zero_fill(client.observation), client.counts).leacc == 1.0


def test_local_steps_are_gradient_steps_and_their_mean_is_weighted():
    network, before = BUILD(), get_vector(BUILD())
    data = samples_at(DIGITS.train_images, DIGITS.train_labels, few(10)[0])
    one = after_local_steps(network, before, data, steps=1, batch=30, learning_rate=0.1, rng=rng())
    client = client_of_round(BUILD, before, data, classes=10, learning_rate=0.1)
    assert one == pytest.approx(client.weights, abs=1e-6)
    many = after_local_steps(network, before, data, steps=7, batch=10, learning_rate=0.1, rng=rng())
    assert np.abs(many - before).sum() > 2 * np.abs(one - before).sum()
    assert mean_model([one, before], [3, 1]) == pytest.approx(0.75 * one + 0.25 * before, abs=1e-7)
    with pytest.raises(InvalidInput, match="one number per model"):
        mean_model([one], [])
