from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sensecrypt.data import load_dataset
from sensecrypt.lab.attacks.image_labels import batch_labels, labels_from_counts
from sensecrypt.lab.attacks.synthetic import synthetic_client
from tests.lab.attacks.masks import hide_by

SHARE = 0.05


@pytest.fixture(scope="module")
def client():
    data = load_dataset("digits")
    return synthetic_client("digits-mlp", data.train_images, data.train_labels, classes=10, samples=4, seed=3)


@pytest.fixture(scope="module")
def hidden(client):
    return hide_by("high", client, SHARE)


def right(client, labels):
    return sorted(labels.tolist()) == sorted(client.labels.tolist())


def test_counts_become_as_many_labels_as_there_are_images():
    assert labels_from_counts(np.array([0.1, 2.2, 0.9]), 3).tolist() == [1, 1, 2]


def test_zeros_mislead_and_who_knows_the_mask_is_not_misled(client, hidden):
    observation = client.observe(hidden)
    assert not right(client, batch_labels(observation, "zero-fill"))
    assert right(client, batch_labels(observation, "mask-aware"))


def test_sensitivities_tell_labels_with_everything_hidden(client, hidden):
    observation = client.observe(np.ones_like(hidden), clear_sensitivity=True)
    assert right(client, batch_labels(observation, "sensitivity"))


def test_a_last_layer_in_sight_needs_no_public_data(client, hidden):
    nothing = np.zeros_like(hidden)
    nothing[:100] = True  # of the first layer
    observation = replace(client.observe(nothing), public=None)
    assert right(client, batch_labels(observation, "mask-aware"))


@pytest.mark.parametrize("fill", ["mask-aware", "sensitivity"])
def test_without_what_the_attack_needs_classes_come_in_turn(client, hidden, fill):
    labels = batch_labels(replace(client.observe(hidden), public=None), fill)
    assert labels.dtype == torch.int64
    assert len(set(labels.tolist())) == 4
