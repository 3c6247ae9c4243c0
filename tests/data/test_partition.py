from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from sensecrypt import InvalidInput
from sensecrypt.data import (
    by_categories,
    class_histogram,
    classes_per_client,
    dirichlet,
    earth_movers_distance,
    iid,
    make_partition,
    mean_emd,
)

TEN = np.tile(np.arange(10), 100)  # ten balanced classes


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def histograms(parts, labels=TEN):
    return [class_histogram(labels, part, int(labels.max()) + 1) for part in parts]


@given(
    counts=st.lists(st.integers(5, 40), min_size=5, max_size=5),
    clients=st.integers(2, 10),
    spec=st.sampled_from(["iid", "categories:1", "categories:2", "classes:1", "classes:2", "dirichlet:0.1"]),
    seed=st.integers(0, 9),
)
def test_laws(counts, clients, spec, seed):
    labels = rng(seed).permutation(np.repeat([0, 1, 2, 5, 9], counts))
    parts = make_partition(spec, labels, clients, rng=rng(seed))
    assert len(parts) == clients
    assert all(part.dtype == np.int64 and part.size and (np.diff(part) > 0).all() for part in parts)
    together = np.concatenate(parts)
    assert np.unique(together).size == together.size  # disjoint
    if not spec.startswith("classes"):
        assert together.size == labels.size  # nothing left out
    again = make_partition(spec, labels, clients, rng=rng(seed))
    assert all(np.array_equal(*pair) for pair in zip(parts, again, strict=True))


@given(st.integers(1, 1000), st.integers(0, 9))
def test_iid_is_even(clients, seed):
    sizes = [part.size for part in iid(TEN, clients, rng=rng(seed))]
    assert max(sizes) - min(sizes) <= 1


def test_another_generator_gives_another_split():
    assert not np.array_equal(iid(TEN, 4, rng=rng(1))[0], iid(TEN, 4, rng=rng(2))[0])


def test_four_categories_of_neighbouring_classes():
    parts = by_categories(TEN, 20, 4, rng=rng())
    held = [set(TEN[part]) for part in parts]
    assert held == [{0, 1, 2}] * 5 + [{3, 4, 5}] * 5 + [{6, 7}] * 5 + [{8, 9}] * 5
    assert [part.size for part in parts] == [60] * 10 + [40] * 10


def test_classes_of_a_client_follow_each_other_cyclically():
    parts = classes_per_client(TEN, 6, 3, rng=rng())
    assert [set(TEN[part]) for part in parts] == [
        {0, 1, 2},
        {3, 4, 5},
        {6, 7, 8},
        {9, 0, 1},
        {2, 3, 4},
        {5, 6, 7},
    ]
    counts = histograms(parts)
    assert counts[0].tolist() == [50, 50, 50, 0, 0, 0, 0, 0, 0, 0]
    assert counts[2].tolist() == [0, 0, 0, 0, 0, 0, 50, 50, 100, 0]


def test_stray_samples_come_on_top_and_are_nobody_elses():
    parts = classes_per_client(TEN, 10, 1, rng=rng(), stray=2)
    assert np.unique(np.concatenate(parts)).size == 1000
    assert np.array_equal(histograms(parts), np.full((10, 10), 2) + 80 * np.eye(10))


def test_dirichlet_goes_from_one_owner_a_class_to_even():
    sharp = histograms(dirichlet(TEN, 5, 1e-9, rng=rng(), min_samples=0))
    assert (np.max(sharp, axis=0) == 100).all()
    flat = histograms(dirichlet(TEN, 5, 1e6, rng=rng()))
    assert np.abs(np.array(flat) - 20).max() <= 1


@given(st.floats(1e-6, 10), st.integers(1, 20), st.integers(0, 5), st.integers(0, 99))
def test_dirichlet_gives_everybody_the_minimum(alpha, clients, minimum, seed):
    parts = dirichlet(TEN[:100], clients, alpha, rng=rng(seed), min_samples=minimum)
    assert min(part.size for part in parts) >= minimum
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(100))


@pytest.mark.parametrize(("k", "papers"), [(10, 0.0), (5, 2.78), (2, 3.56), (1, 3.67)])
def test_mean_emd_of_ten_clients_is_the_papers(k, papers):
    parts = classes_per_client(TEN, 10, k, rng=rng())
    assert round(mean_emd(histograms(parts)), 2) == papers


def test_mean_emd_of_one_class_each_is_exact_and_of_iid_small():
    assert mean_emd(histograms(classes_per_client(TEN, 10, 1, rng=rng()))) == pytest.approx(165 / 45)
    many = np.tile(np.arange(10), 6000)
    assert mean_emd(histograms(iid(many, 10, rng=rng()), many)) < 0.1  # 0 but for the luck of the draw


HISTOGRAM = st.lists(st.integers(0, 50), min_size=6, max_size=6).filter(any)


@given(HISTOGRAM, HISTOGRAM)
def test_emd_is_scipys(p, q):
    classes = np.arange(6)
    expected = wasserstein_distance(classes, classes, p, q)
    assert earth_movers_distance(p, q) == pytest.approx(expected, abs=1e-12)
    assert earth_movers_distance(q, p) == earth_movers_distance(p, q)


@given(st.lists(HISTOGRAM, min_size=2, max_size=6))
def test_mean_emd_is_the_mean_over_pairs(rows):
    pairs = [earth_movers_distance(p, q) for p, q in combinations(rows, 2)]
    assert mean_emd(rows) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize(
    "spec", ["", "IID", "iid:1", "categories", "categories:", "classes:two", "classes:1.5", "classes:-1", "dirichlet:x"]
)
def test_a_spec_that_is_none_gets_examples(spec):
    with pytest.raises(InvalidInput, match="categories:4") as error:
        make_partition(spec, TEN, 4, rng=rng())
    assert error.value.argument == "partition"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("categories:4", "is 'categories:4': the number of categories is 4, but there are 2 clients; pass at most 2"),
        ("classes:11", "is 'classes:11': the number of classes is 11; pass at least 1 and at most 10"),
        ("dirichlet:0", "is 'dirichlet:0': the concentration is 0; pass a number in"),
    ],
)
def test_a_word_that_does_not_fit_is_named_as_the_setting(word, told):
    with pytest.raises(InvalidInput, match=f"^partition: {told}"):
        make_partition(word, TEN, 2, rng=rng())


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: iid(TEN, 1001, rng=rng()), "clients"),
        (lambda: iid(TEN, 0, rng=rng()), "clients"),
        (lambda: iid([], 1, rng=rng()), "labels"),
        (lambda: iid([0.5, 1.0], 1, rng=rng()), "labels"),
        (lambda: iid([-1, 1], 1, rng=rng()), "labels"),
        (lambda: iid([[1], [2]], 1, rng=rng()), "labels"),
        (lambda: by_categories(TEN, 20, 11, rng=rng()), "categories"),
        (lambda: by_categories(TEN, 3, 4, rng=rng()), "categories"),
        (lambda: by_categories(TEN, 3, 0, rng=rng()), "categories"),
        (lambda: by_categories([0, 0, 0, 1], 4, 2, rng=rng()), "clients"),
        (lambda: classes_per_client(TEN, 10, 11, rng=rng()), "k"),
        (lambda: classes_per_client(TEN, 10, 0, rng=rng()), "k"),
        (lambda: classes_per_client(TEN, 10, 1, rng=rng(), stray=12), "clients"),
        (lambda: classes_per_client(TEN, 10, 1, rng=rng(), stray=-1), "stray"),
        (lambda: classes_per_client([0, 0, 0, 1], 4, 1, rng=rng()), "clients"),
        (lambda: dirichlet(TEN, 10, 0.0, rng=rng()), "alpha"),
        (lambda: dirichlet(TEN, 10, np.inf, rng=rng()), "alpha"),
        (lambda: dirichlet(TEN, 501, 1.0, rng=rng()), "clients"),
        (lambda: dirichlet(TEN, 10, 1.0, rng=rng(), min_samples=-1), "min_samples"),
        (lambda: class_histogram(TEN, [1000], 10), "indices"),
        (lambda: class_histogram(TEN, [-1], 10), "indices"),
        (lambda: class_histogram(TEN, [0], 9), "classes"),
        (lambda: earth_movers_distance([1, 0], [1, 0, 0]), "q"),
        (lambda: earth_movers_distance([0, 0], [1, 0]), "p"),
        (lambda: earth_movers_distance([2, -1], [1, 0]), "p"),
        (lambda: mean_emd([[1, 2]]), "histograms"),
        (lambda: mean_emd([[1, 2], [1, 2, 3]]), "histograms"),
    ],
)
def test_bad_input_is_named(call, argument):
    with pytest.raises(InvalidInput) as error:
        call()
    assert error.value.argument == argument


def test_an_empty_part_counts_nothing():
    assert class_histogram([0, 1], [], 3).tolist() == [0, 0, 0]
