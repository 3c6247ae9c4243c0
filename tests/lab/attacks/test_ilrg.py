from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.completion import complete, complete_head
from sensecrypt.lab.attacks.ilrg import _embeddings, counts, counts_summing_to, ilrg
from sensecrypt.lab.attacks.signs import column_signs

HISTOGRAMS = st.lists(st.integers(0, 9), min_size=4, max_size=6).filter(any)


def layer(classes, inputs, seed):
    """A layer, and one embedding a class, so that all samples of a class have one prediction."""
    rng = np.random.default_rng(seed)
    return (
        rng.normal(0, 0.1, (classes, inputs)),
        rng.normal(0, 0.1, classes),
        rng.uniform(0, 1, (classes, inputs)),
    )


def gradients(histogram, weight, bias, embeddings):
    """[g_W | g_b] of a batch, sample by sample."""
    total = np.zeros((weight.shape[0], weight.shape[1] + 1))
    for label, many in enumerate(histogram):
        error = softmax(weight @ embeddings[label] + bias) - np.eye(len(bias))[label]
        total += many * np.outer(error, [*embeddings[label], 1.0])
    return total / sum(histogram)


@given(HISTOGRAMS, st.integers(0, 50))
def test_exact_where_all_samples_share_an_embedding(histogram, seed):
    weight, bias, embeddings = layer(len(histogram), 5, seed)
    shared = np.repeat(embeddings[:1], len(histogram), axis=0)
    matrix = gradients(histogram, weight, bias, shared)
    raw = ilrg(matrix[:, :-1], matrix[:, -1], weight, bias, sum(histogram))
    assert raw == pytest.approx(np.array(histogram), abs=1e-6)
    assert counts(raw, sum(histogram)).tolist() == histogram


def test_embeddings_that_differ_by_class_are_found_when_the_network_predicts_little():
    histogram = [3, 0, 5, 1]
    weight, bias, embeddings = layer(4, 6, 1)
    matrix = gradients(histogram, weight, bias, embeddings)
    assert counts(ilrg(matrix[:, :-1], matrix[:, -1], weight, bias, 9), 9).tolist() == histogram


def test_a_bias_gradient_of_zero_saturates_instead_of_failing():
    weight, bias, embeddings = layer(4, 6, 1)
    matrix = gradients([3, 0, 5, 1], weight, bias, embeddings)
    matrix[2, -1] = 0.0
    assert np.isfinite(ilrg(matrix[:, :-1], matrix[:, -1], weight, bias, 9)).all()
    nothing = np.zeros_like(matrix)
    guess = ilrg(nothing[:, :-1], nothing[:, -1], weight, bias, 9)
    assert guess == pytest.approx(9 * softmax(bias))


def predicted(row, *, keep_direction):
    """What iLRG takes the first class's embedding for, seen through a layer that passes single inputs on.

    The layer scales inputs down so far that its softmax does not saturate: logits are the embedding, up to a constant.
    """
    inputs = len(row)
    g_weight, weight = np.zeros((inputs, inputs)), 1e-10 * np.eye(inputs)
    g_weight[0] = row
    matrix = _embeddings(g_weight, np.zeros(inputs), keep_direction=keep_direction)
    probabilities = softmax(matrix[0] @ weight.T)
    return np.log(probabilities / probabilities[-1])


def test_an_embedding_without_bias_gradient_is_capped_component_by_component_as_published():
    # 3.2e-5, −4e-2 and 0 divided by 1e-64: every decimal exponent is cut to 10, leading digits stay.
    assert predicted([3.2e-5, -4e-2, 0.0], keep_direction=False) == pytest.approx([3.2, -4.0, 0.0])
    assert predicted([5e-7, 5.0, 0.0], keep_direction=False) == pytest.approx([5.0, 5.0, 0.0])


def test_or_as_a_whole_if_asked_for():
    assert predicted([3.2e-5, -4e-2, 0.0], keep_direction=True) == pytest.approx([8e-4, -1.0, 0.0])


def test_an_exponent_is_cut_from_below_too():
    quotients = _embeddings(np.array([[2e-30, 3e-4]]), np.array([1e-3]), keep_direction=False)
    assert quotients == pytest.approx(np.array([[2e-10, 0.3]]))


def test_where_no_quotient_is_extreme_both_ways_are_the_plain_quotient():
    rng = np.random.default_rng(0)
    g_weight, g_bias = rng.normal(size=(5, 7)), rng.normal(size=5)
    for keep_direction in (False, True):
        found = _embeddings(g_weight, g_bias, keep_direction=keep_direction)
        assert found == pytest.approx(g_weight / g_bias[:, None])


def test_a_layer_without_bias_is_refused():
    with pytest.raises(InvalidInput, match="no bias"):
        ilrg(np.ones((3, 2)), [], np.ones((3, 2)), [], 4)


def test_shapes_are_checked():
    with pytest.raises(InvalidInput, match="one row and one bias per class"):
        ilrg(np.ones((3, 2)), np.ones(2), np.ones((3, 2)), np.ones(3), 4)


def test_rounding_as_published():
    assert counts([-0.7, 1.6, 0.4, 11.0], 8).tolist() == [0, 2, 0, 0]


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=12), st.integers(1, 60))
def test_forced_counts_sum_to_the_batch_size(raw, samples):
    whole = counts_summing_to(raw, samples)
    assert whole.sum() == samples
    assert whole.min() >= 0


def test_forced_counts_move_where_rounding_went_furthest():
    assert counts_summing_to([1.45, 2.4, 3.0], 7).tolist() == [2, 2, 3]
    assert counts_summing_to([1.55, 2.9, 3.0], 7).tolist() == [1, 3, 3]


@given(st.integers(0, 100), st.integers(0, 100))
def test_completion_is_exact_at_rank_one(seed, mask_seed):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=6)
    matrix = np.outer(u - u.mean(), rng.uniform(0.2, 1, 12))
    hidden = np.random.default_rng(mask_seed).random(matrix.shape) < 0.25
    hidden[:, 0] = False
    found = complete(np.where(hidden, np.nan, matrix))
    assert found == pytest.approx(matrix, abs=1e-4)
    assert found.sum(axis=0) == pytest.approx(np.zeros(12), abs=1e-9)


def test_one_hidden_row_is_exact_at_any_rank():
    matrix = np.random.default_rng(0).normal(size=(5, 8))
    matrix -= matrix.mean(axis=0)
    hidden = matrix.copy()
    hidden[3] = np.nan
    assert complete(hidden) == pytest.approx(matrix)


def test_a_hidden_bias_column_follows_from_absent_classes():
    histogram = [0, 7, 0, 0, 5, 0]
    weight, bias, embeddings = layer(6, 8, 2)
    matrix = gradients(histogram, weight, bias, np.repeat(embeddings[:1], 6, axis=0))
    hidden = matrix.copy()
    hidden[:, -1] = np.nan
    found = complete_head(hidden, weight, bias, 12)
    assert found[:, -1] == pytest.approx(matrix[:, -1], abs=0.01)


@given(st.integers(0, 200))
def test_signs_follow_from_columns_that_sum_to_zero(seed):
    rng = np.random.default_rng(seed)
    matrix = np.outer(rng.normal(size=7), rng.uniform(0.2, 1, 9)) + 0.05 * rng.normal(size=(7, 9))
    matrix -= matrix.mean(axis=0)
    signed = np.abs(matrix) * column_signs(np.abs(matrix))
    assert signed.sum(axis=0) == pytest.approx(np.zeros(9), abs=1e-4)


def test_row_signs_of_many_classes_are_found_by_descent():
    rng = np.random.default_rng(3)
    u = rng.normal(size=40)
    matrix = np.outer(u - u.mean(), rng.uniform(0.2, 1, 60))
    found = column_signs(np.abs(matrix))
    assert np.abs((np.abs(matrix) * found).sum(axis=0)).max() < 0.05 * np.abs(matrix).sum(axis=0).max()
