"""iLRG against a published run of its authors: their network, their fifty batches, their result, batch by batch.

Their public code and logs (2022-09-15, FCN-3 on MNIST, 24 samples) give everything: PyTorch's generator starts at 13,
Python's at 18, and images are normalised. Every count comes out right in all batches but the fifteenth.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from sensecrypt.attacks.ilrg import counts, ilrg
from sensecrypt.attacks.scores import score_labels
from sensecrypt.data import load_dataset
from sensecrypt.models import mean_gradient

SAMPLES, BATCHES = 24, 50
MEAN, DEVIATION = 0.13066373765468597, 0.30810782313346863


@pytest.mark.real_data
def test_a_published_run_comes_out_again():
    data = load_dataset("mnist")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(13)
        layers = [nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 10)]
    model = nn.Sequential(nn.Flatten(), *layers)
    weight, bias = layers[-1].weight.detach().numpy(), layers[-1].bias.detach().numpy()
    draws = random.Random(18)  # noqa: S311  (theirs)
    scores, found = [], []
    for _ in range(BATCHES):
        chosen = draws.sample(range(60_000), SAMPLES)
        images = (torch.from_numpy(data.train_images[chosen]).float() / 255 - MEAN) / DEVIATION
        labels = data.train_labels[chosen]
        gradient = mean_gradient(model, images, torch.from_numpy(labels))
        g_weight = gradient[-weight.size - bias.size : -bias.size].reshape(weight.shape)
        raw = ilrg(g_weight, gradient[-bias.size :], weight, bias, SAMPLES)
        scores.append(score_labels(raw, np.bincount(labels, minlength=10)))
        found.append((np.bincount(labels, minlength=10).tolist(), counts(raw, SAMPLES).tolist()))
    assert found[0] == ([5, 1, 1, 1, 4, 4, 0, 2, 1, 5], [5, 1, 1, 1, 4, 4, 0, 2, 1, 5])
    assert found[14] == ([2, 1, 3, 1, 0, 6, 2, 4, 3, 2], [2, 1, 3, 1, 0, 6, 2, 5, 3, 2])
    assert np.mean([score.leacc for score in scores]) == pytest.approx(1.000)
    assert np.mean([score.lnacc for score in scores]) == pytest.approx(0.994)
