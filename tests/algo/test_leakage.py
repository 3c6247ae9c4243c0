"""Mutual information against scikit-learn's estimator on the same binned pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from sensecrypt import InvalidInput, Mask, MaskMismatch, mutual_information, mutual_information_curve
from sensecrypt.algo import leakage
from sensecrypt.algo.leakage import bin_weights, curve_of_blocks

finite = st.floats(-1e6, 1e6, allow_nan=False)


def reference_bits(weights: np.ndarray, hidden: np.ndarray, bins: int) -> float:
    """The definition: bin both vectors over the same edges, ask scikit-learn, convert nats to bits."""
    edges = np.linspace(min(weights.min(), 0), max(weights.max(), 0), bins + 1)
    if edges[0] == edges[-1]:
        return 0.0
    binned = np.clip(np.searchsorted(edges, weights, side="right") - 1, 0, bins - 1)
    visible = np.clip(np.searchsorted(edges, np.where(hidden, 0.0, weights), side="right") - 1, 0, bins - 1)
    return mutual_info_score(binned, visible) / math.log(2)


@pytest.mark.parametrize("bins", [1, 2, 20, 50, 256, 1000])
@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
def test_equals_scikit_learn_on_network_like_weights(bins, shift):
    rng = np.random.default_rng(7)
    weights = rng.normal(shift, 0.7, 3000)
    for share in (0.0, 0.1, 0.5, 1.0):
        hidden = rng.random(3000) < share
        assert mutual_information(weights, hidden, bins=bins) == pytest.approx(
            reference_bits(weights, hidden, bins), abs=1e-10
        )


@given(st.data(), st.integers(1, 30), st.integers(1, 12))
def test_curve_equals_the_single_values_at_every_point(data, size, bins):
    weights = np.array(data.draw(st.lists(finite, min_size=size, max_size=size)))
    order = np.array(data.draw(st.permutations(range(size))))
    curve = mutual_information_curve(weights, order, bins=bins)
    binned, zero = bin_weights(weights, bins=bins)
    assert curve.shape == (size + 1,)
    for k in range(size + 1):
        hidden = np.zeros(size, dtype=bool)
        hidden[order[:k]] = True
        pair = mutual_info_score(binned, np.where(hidden, zero, binned)) / math.log(2)
        assert curve[k] == pytest.approx(pair, abs=1e-9)
        assert mutual_information(weights, hidden, bins=bins) == pytest.approx(pair, abs=1e-9)


def test_curve_is_the_same_over_many_chunks(monkeypatch):
    rng = np.random.default_rng(3)
    weights, order = rng.normal(size=1000), rng.permutation(1000)
    whole = mutual_information_curve(weights, order)
    monkeypatch.setattr(leakage, "_CHUNK", 7)
    assert np.allclose(mutual_information_curve(weights, order), whole, atol=1e-12)


@given(st.data(), st.integers(1, 30), st.integers(1, 12), st.integers(1, 9))
def test_curve_of_blocks_is_the_curve_at_the_ends_of_blocks(data, size, bins, block):
    weights = np.array(data.draw(st.lists(finite, min_size=size, max_size=size)))
    order = np.array(data.draw(st.permutations(range(size))))
    ranking = np.array(data.draw(st.permutations(range(-(-size // block)))))
    binned, zero = bin_weights(weights, bins=bins)
    found = curve_of_blocks(binned[order], zero, ranking, block)
    hidden = np.zeros(size, dtype=bool)
    assert found.shape == (ranking.size + 1,)
    for k in range(ranking.size + 1):
        if k:
            hidden[order[ranking[k - 1] * block :][:block]] = True
        assert found[k] == pytest.approx(mutual_information(weights, hidden, bins=bins), abs=1e-9)


def test_curve_of_blocks_is_the_same_over_many_chunks(monkeypatch):
    rng = np.random.default_rng(3)
    (binned, zero), ranking = bin_weights(rng.normal(size=1000)), rng.permutation(63)
    whole = curve_of_blocks(binned, zero, ranking, 16)
    monkeypatch.setattr(leakage, "_CHUNK", 50)
    assert np.allclose(curve_of_blocks(binned, zero, ranking, 16), whole, atol=1e-12)


def test_ends_of_the_curve_are_entropy_and_zero():
    weights = np.random.default_rng(0).normal(size=5000)
    curve = mutual_information_curve(weights, np.arange(5000))
    p = np.bincount(bin_weights(weights)[0]) / 5000
    assert curve[0] == pytest.approx(-(p[p > 0] * np.log2(p[p > 0])).sum())
    assert curve[-1] == pytest.approx(0, abs=1e-12)


def test_edges_belong_to_the_bin_above_and_the_maximum_to_the_last():
    binned, zero = bin_weights([0.0, 0.25, 0.5, 0.75, 1.0], bins=4)
    assert (binned.tolist(), zero) == ([0, 1, 2, 3, 3], 0)
    assert bin_weights([-2.0, -1.0], bins=4)[1] == 3


def test_all_zero_weights_tell_nothing():
    assert mutual_information(np.zeros(5), np.zeros(5, dtype=bool)) == 0.0
    assert mutual_information_curve(np.zeros(5), np.arange(5)).tolist() == [0.0] * 6


def test_extreme_weights_do_not_overflow():
    assert mutual_information([-1.7e308, 1.7e308], [False, False], bins=2) == pytest.approx(1.0)


def test_takes_a_mask():
    weights = np.random.default_rng(1).normal(size=10)
    mask = Mask.prefix(3, size=10)
    assert mutual_information(weights, mask) == mutual_information(weights, mask.to_array())


@pytest.mark.parametrize(
    ("call", "kind", "argument"),
    [
        (lambda: mutual_information([], []), InvalidInput, "weights"),
        (lambda: mutual_information([1.0, np.nan], [True, False]), InvalidInput, "weights"),
        (lambda: mutual_information([1.0, 2.0], [True]), MaskMismatch, "mask"),
        (lambda: mutual_information([1.0, 2.0], [1, 0]), MaskMismatch, "mask"),
        (lambda: mutual_information([1.0, 2.0], Mask.prefix(1, size=3)), MaskMismatch, "mask"),
        (lambda: mutual_information([1.0, 2.0], [True, False], bins=0), InvalidInput, "bins"),
        (lambda: mutual_information_curve([1.0, 2.0], [0, 0]), InvalidInput, "order"),
        (lambda: mutual_information_curve([1.0, 2.0], [0.0, 1.0]), InvalidInput, "order"),
        (lambda: mutual_information_curve([1.0, 2.0], [0, 2]), InvalidInput, "order"),
        (lambda: mutual_information_curve([1.0, 2.0], [0]), InvalidInput, "order"),
    ],
)
def test_bad_input_is_named(call, kind, argument):
    with pytest.raises(kind) as error:
        call()
    assert error.value.argument == argument
