from __future__ import annotations

import numpy as np
import pytest

from sensecrypt import InvalidInput, sensitivity


def test_is_the_absolute_product_and_keeps_shape_and_precision():
    w = np.array([[1.0, -2.0], [0.5, 0.0]], dtype=np.float32)
    g = np.array([[-3.0, 0.25], [4.0, 9.0]], dtype=np.float32)
    result = sensitivity(w, g)
    assert result.dtype == np.float32
    assert result.tolist() == [[3.0, 0.5], [2.0, 0.0]]


def test_a_list_of_layers_gives_a_list():
    layers = sensitivity([np.ones((2, 3)), np.full(2, -2.0)], [np.full((2, 3), 0.5), np.full(2, 4.0)])
    assert [layer.shape for layer in layers] == [(2, 3), (2,)]
    assert layers[1].tolist() == [8.0, 8.0]


def test_a_list_of_numbers_is_one_vector():
    assert sensitivity([1.0, -2.0], [3.0, 4.0]).tolist() == [3.0, 8.0]


@pytest.mark.parametrize(
    ("weights", "gradients", "argument"),
    [
        (np.ones(2), np.ones(3), "gradients"),
        (np.ones(2), np.array([1.0, np.nan]), "gradients"),
        (np.array([np.inf, 1.0]), np.ones(2), "weights"),
        (np.full(2, 1e200), np.full(2, 1e200), "gradients"),
        (np.ones(0), np.ones(0), "weights"),
        (np.array(["a"]), np.ones(1), "weights"),
        ([np.ones(2), np.ones(3)], [np.ones(2)], "gradients"),
        ([np.ones(2), np.ones(3)], [np.ones(2), np.ones(2)], "gradients[1]"),
    ],
)
def test_bad_input_is_named(weights, gradients, argument):
    with pytest.raises(InvalidInput) as error:
        sensitivity(weights, gradients)
    assert error.value.argument == argument
