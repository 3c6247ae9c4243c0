from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from sensecrypt import InvalidInput, cluster_clients
from sensecrypt.bench.clustering import GROUPS, groups


def synthetic(sizes: list[int], *, seed: int, width: int = 256, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((len(sizes), width))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    return centres[truth] + noise * rng.standard_normal((truth.size, width)) / np.sqrt(width), truth


@pytest.mark.parametrize("count", range(2, 9))
def test_groups_are_found_over_20_seeds(count):
    for seed in range(20):
        rows, truth = synthetic([5] * count, seed=seed)
        found = cluster_clients(rows, random_state=seed)
        assert adjusted_rand_score(truth, found.labels) == 1.0, seed
        assert found.count == count


@pytest.mark.parametrize("sizes", [[15, 5], [14, 3, 3], [20, 2, 2, 2, 10], [2, 2]])
def test_uneven_groups_are_found_over_20_seeds(sizes):
    for seed in range(20):
        rows, truth = synthetic(sizes, seed=seed)
        assert adjusted_rand_score(truth, cluster_clients(rows, random_state=seed).labels) == 1.0, seed


@pytest.mark.parametrize("clients", [3, 4, 10, 20, 100])
@pytest.mark.parametrize("width", [32, 256])
def test_one_group_is_one_cluster_over_20_seeds(clients, width):
    for seed in range(20):
        rows, _ = synthetic([clients], seed=seed, width=width)
        found = cluster_clients(rows, random_state=seed)
        assert found.count == 1, seed
        assert found.labels.tolist() == [0] * clients


def test_one_two_and_identical_clients():
    assert cluster_clients([[1.0, 2.0]], random_state=0).labels.tolist() == [0]
    two = cluster_clients([[1.0, 2.0], [-5.0, 9.0]], random_state=0)
    assert (two.count, two.silhouette) == (1, None)
    assert "cannot make two clusters" in two.why
    same = cluster_clients(np.ones((9, 4)), random_state=0)
    assert (same.count, same.why) == (1, "all clients are identical")


def test_identical_clients_within_groups():
    rows = np.repeat(np.eye(3), 4, axis=0)
    found = cluster_clients(rows, random_state=0)
    assert found.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert found.silhouette == 1.0


def test_a_lone_client_joins_the_nearest_group():
    rows, _ = synthetic([6, 6], seed=1)
    lone = 1.6 * rows[6:].mean(axis=0)
    found = cluster_clients(np.vstack([rows, lone]), random_state=0)
    assert found.labels.tolist() == [0] * 6 + [1] * 7
    alone = cluster_clients(np.vstack([rows, -3 * lone]), random_state=0, min_size=1)
    assert alone.labels[-1] not in alone.labels[:-1]
    merged = cluster_clients(np.vstack([rows, -3 * lone]), random_state=0)
    assert "joined the nearest" in merged.why or merged.count == 1
    assert np.bincount(merged.labels).min() >= 2


def test_labels_are_numbered_by_first_appearance_and_exemplars_belong():
    rows, truth = synthetic([5, 5, 5], seed=3)
    shuffled = np.random.default_rng(0).permutation(15)
    found = cluster_clients(rows[shuffled], random_state=0)
    assert found.labels[0] == 0
    assert [int(found.labels[e]) for e in found.exemplars] == [0, 1, 2]
    assert np.array_equal(found.members(0), np.flatnonzero(found.labels == 0))
    assert adjusted_rand_score(truth[shuffled], found.labels) == 1.0


def test_the_same_state_gives_the_same_clusters():
    rows, _ = synthetic([30, 30], seed=2, noise=1.5)
    a, b = (cluster_clients(rows, random_state=np.random.default_rng(4), min_silhouette=-1) for _ in range(2))
    assert a.labels.tolist() == b.labels.tolist()


def test_ten_thousand_clients_are_clustered_from_a_sample():
    rows, truth = groups(10_000, 0)
    found = cluster_clients(rows, random_state=0)
    assert found.count == GROUPS
    assert adjusted_rand_score(truth, found.labels) == 1.0
    assert "on a sample of 1,000 of 10,000 clients" in found.why


@pytest.mark.parametrize("k", [None, 4])
def test_k_means_finds_the_groups_too(k):
    rows, truth = synthetic([5] * 4, seed=0)
    found = cluster_clients(rows, random_state=0, method="k-means", k=k)
    assert adjusted_rand_score(truth, found.labels) == 1.0


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"vectors": [1.0, 2.0]}, "vectors"),
        ({"vectors": [[1.0, np.nan], [1.0, 2.0]]}, "vectors"),
        ({"vectors": [[1.0], [1.0, 2.0]]}, "vectors"),
        ({"vectors": np.ones((0, 4))}, "vectors"),
        ({"min_size": 0}, "min_size"),
        ({"min_silhouette": 2.0}, "min_silhouette"),
        ({"method": "dbscan"}, "method"),
        ({"method": "k-means", "k": 9}, "k"),
    ],
)
def test_bad_input_is_named(arguments, argument):
    arguments = {"vectors": np.eye(4), "random_state": 0, **arguments}
    with pytest.raises(InvalidInput) as error:
        cluster_clients(arguments.pop("vectors"), **arguments)
    assert error.value.argument == argument
