"""Clusters from real sensitivities: needs the real data sets in $SENSECRYPT_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from sensecrypt import cluster_clients, generate_keypair
from sensecrypt.client.context import ClientContext
from sensecrypt.client.problem import configured_problem
from sensecrypt.client.scoring import clustering_gains, describe_gains
from sensecrypt.config import make_config
from sensecrypt.models import get_vector

DATA = Path(os.environ.get("SENSECRYPT_DATA", "nowhere"))


@pytest.mark.real_data
@pytest.mark.skipif(not (DATA / "fashion-mnist").exists(), reason="needs Fashion-MNIST in $SENSECRYPT_DATA")
@pytest.mark.parametrize(
    ("partition", "truth"),
    [("categories:4", np.arange(20) // 5), ("categories:5", np.arange(20) // 4), ("iid", np.zeros(20, dtype=int))],
)
def test_fashion_mnist_clients_are_clustered_by_their_classes(partition, truth):
    torch.set_num_threads(1)
    config = make_config({"dataset": "fashion-mnist", "partition": partition, "seed": 1})
    problem = configured_problem(config)
    key = generate_keypair("insecure-test")[0]
    context = ClientContext(config, problem.build, dict(enumerate(problem.clients)), key)
    vector = get_vector(problem.build())
    gains = [clustering_gains(context, client, vector) for client in range(20)]
    sketches = [describe_gains(*each, b"a seed of sixteen").row for each in gains]
    found = cluster_clients(np.array(sketches), random_state=0)
    assert adjusted_rand_score(truth, found.labels) == 1.0
