from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import AffinityPropagation
from sklearn.metrics import adjusted_rand_score

from sensecrypt import InvalidInput, cluster_clients
from sensecrypt.algo import clustering
from sensecrypt.lab.bench.clustering import GROUPS, groups
from sensecrypt.lab.bench.realsketches import real_sketches, true_clusters


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
    assert "too few for two clusters" in two.why
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


def spread_out(*, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """1,000 clients in 4 groups, each with a spread of its own in 12 of 256 dimensions, as real sketches have it."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(4), 250)
    centres, few = np.eye(256)[:4], np.zeros((1000, 256))
    few[:, 20:32] = rng.standard_normal((1000, 12))
    return centres[truth] + np.array([0.04, 0.06, 0.08, 0.12])[truth, None] * few, truth


@pytest.mark.parametrize("seed", range(2))
def test_a_thousand_clients_in_groups_of_different_spread(seed):
    rows, truth = spread_out(seed=seed)
    found = cluster_clients(rows, random_state=seed)
    assert found.count == 4
    assert adjusted_rand_score(truth, found.labels) == 1.0
    assert "affinity propagation found" in found.why
    assert "merged down to 2" in found.why


def test_large_groups_in_much_noise_are_found_by_their_separation():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 200)
    rows = rng.standard_normal((400, 256))
    rows[:, 0] += 14 * truth
    found = cluster_clients(rows, random_state=0)
    assert found.silhouette < clustering.MIN_SILHOUETTE
    assert adjusted_rand_score(truth, found.labels) == 1.0
    assert "standard deviations apart" in found.why
    few = cluster_clients(rows[185:215], random_state=0)  # 15 of each: too few to count for structure
    assert few.count == 1
    assert few.why.startswith("no structure, silhouette below 0.35: affinity propagation found")


def test_a_small_group_beside_large_ones_is_kept():
    rows, truth = synthetic([200, 180, 12], seed=0)
    assert adjusted_rand_score(truth, cluster_clients(rows, random_state=0).labels) == 1.0


@pytest.mark.parametrize(
    ("partition", "count"), [("categories:2", 2), ("categories:4", 4), ("categories:5", 5), ("iid", 1)]
)
def test_real_sketches_of_digits(partition, count):
    found = cluster_clients(real_sketches("digits", 60, partition, seed=0), random_state=0, min_size=3)
    assert found.count == count
    assert adjusted_rand_score(true_clusters(60, partition), found.labels) == 1.0


def test_partitions_without_true_clusters():
    assert true_clusters(8, "dirichlet:0.5") is None
    assert true_clusters(5, "categories:2").tolist() == [0, 0, 0, 1, 1]


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(18)))
def test_the_order_of_clients_does_not_matter(order):
    rows, _ = synthetic([8, 6, 4], seed=0)
    found = cluster_clients(rows, random_state=0).labels
    shuffled = cluster_clients(rows[list(order)], random_state=0).labels
    assert adjusted_rand_score(found[list(order)], shuffled) == 1.0


@pytest.mark.parametrize("clients", [1, 2, 20, 120])
def test_plain_affinity_propagation_is_scikit_learns(clients):
    rows, _ = synthetic([clients], seed=0, noise=1.0)
    found = cluster_clients(rows, random_state=0, method="ap")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = AffinityPropagation(random_state=0).fit(rows).labels_
    assert adjusted_rand_score(theirs, found.labels) == 1.0
    assert found.count == len(np.unique(theirs))
    assert [int(found.labels[e]) for e in found.exemplars] == list(range(found.count))


def test_plain_affinity_propagation_keeps_small_clusters_and_bad_splits():
    rows, _ = synthetic([9, 1], seed=0, noise=0.1)
    alone = cluster_clients(rows, random_state=0, method="ap", min_size=3)
    assert (alone.labels == alone.labels[-1]).sum() == 1
    noise, _ = synthetic([40], seed=0)
    split = cluster_clients(noise, random_state=0, method="ap")
    assert split.count > 1
    assert split.silhouette < clustering.MIN_SILHOUETTE
    assert split.why.startswith("affinity propagation at the median preference, silhouette")


def test_plain_affinity_propagation_that_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(clustering, "_PLAIN_ITERATIONS", 20)
    rows, _ = synthetic([40], seed=0)
    assert "did not converge in 20 iterations" in cluster_clients(rows, random_state=0, method="ap").why
    monkeypatch.setattr(clustering, "_PLAIN_ITERATIONS", 1)
    none = cluster_clients(rows, random_state=0, method="ap")
    assert none.count == 1 or "clusters of the last one" in none.why


@pytest.mark.parametrize("labels", [None, np.arange(40)])
def test_without_convergence_clusters_are_merged_all_the_same(monkeypatch, labels):
    rows, truth = synthetic([20, 20], seed=0)
    monkeypatch.setattr(clustering, "_affinity_propagation", lambda *_: (labels, False))
    found = cluster_clients(rows, random_state=0)
    assert "did not converge in 500 iterations" in found.why
    if labels is None:
        assert (found.count, found.silhouette) == (1, None)
    else:
        assert adjusted_rand_score(truth, found.labels) == 1.0


def test_small_groups_in_few_dimensions():
    rows = np.repeat(np.eye(4), [3, 3, 3, 1], axis=0) + 0.01 * np.random.default_rng(0).standard_normal((10, 4))
    assert np.bincount(cluster_clients(rows, random_state=0, min_size=1).labels).tolist() == [3, 3, 3, 1]
    assert sorted(np.bincount(cluster_clients(rows, random_state=0, min_size=3).labels)) == [3, 3, 4]


def test_more_damping_is_tried_before_giving_up(monkeypatch):
    used, real = [], clustering._affinity_propagation

    def first_fails(distances, preference, damping, iterations, seed):
        used.append(damping)
        labels, converged = real(distances, preference, damping, iterations, seed)
        return labels, converged and len(used) > 1

    monkeypatch.setattr(clustering, "_affinity_propagation", first_fails)
    rows, _ = synthetic([20, 20], seed=0)
    assert "converge" not in cluster_clients(rows, random_state=0).why
    assert used == [0.7, 0.9]


@pytest.mark.parametrize("k", [None, 4])
def test_k_means_finds_the_groups_too(k):
    rows, truth = synthetic([5] * 4, seed=0)
    found = cluster_clients(rows, random_state=0, method="k-means", k=k)
    assert adjusted_rand_score(truth, found.labels) == 1.0
    assert found.why.startswith("k-means with k = 4: 4 clusters" if k else "k-means with k = 2 … 8: 4 clusters")


def test_k_means_gives_as_many_clusters_as_asked_for_and_decides_otherwise():
    rows, _ = synthetic([60], seed=0)
    assert cluster_clients(rows, random_state=0, method="k-means", k=3).count == 3
    assert cluster_clients(rows, random_state=0, method="k-means", k=1).count == 1
    by_silhouette = cluster_clients(rows, random_state=0, method="k-means")
    assert by_silhouette.count == 1
    assert "no structure" in by_silhouette.why


def test_k_means_keeps_no_small_cluster():
    rows, _ = synthetic([9, 1, 9], seed=0, noise=0.1)
    found = cluster_clients(rows, random_state=0, method="k-means", k=3, min_size=3)
    assert found.count == 2
    assert "1 with fewer than 3 clients joined the nearest" in found.why
    same = cluster_clients(np.repeat(np.eye(2), 4, axis=0), random_state=0, method="k-means", k=5)
    assert same.count == 2


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
        ({"method": "affinity-propagation"}, "method"),
        ({"method": "k-means", "k": 9}, "k"),
        ({"method": "auto", "k": 2}, "k"),
        ({"method": "ap", "k": 2}, "k"),
    ],
)
def test_bad_input_is_named(arguments, argument):
    arguments = {"vectors": np.eye(4), "random_state": 0, **arguments}
    with pytest.raises(InvalidInput) as error:
        cluster_clients(arguments.pop("vectors"), **arguments)
    assert error.value.argument == argument
