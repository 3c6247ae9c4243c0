from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from sensecrypt import InvalidInput, dp_noise, gaussian_sigma
from sensecrypt.algo.dp import (
    _dp_noise_with,
    _os_normals,
    analytic_gaussian_sigma,
    clip_rows,
    local_epsilon,
    sample_noise,
)


def exact_delta(epsilon: float, sigma: float) -> float:
    """Theorem 8 of Balle and Wang (2018), by SciPy."""
    a, b = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
    return norm.cdf(a) - math.exp(epsilon + norm.logcdf(b))


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.1, 48.448), (1.0, 4.8448)])
def test_the_papers_sigma(epsilon, sigma):
    assert gaussian_sigma(epsilon, 1e-5) == pytest.approx(sigma, abs=1e-3 * sigma)


@given(st.floats(0.01, 1), st.floats(1e-9, 0.1))
def test_the_classical_sigma_is_safe_and_the_analytic_one_smaller(epsilon, delta):
    classical, analytic = gaussian_sigma(epsilon, delta), analytic_gaussian_sigma(epsilon, delta)
    assert analytic <= classical
    assert exact_delta(epsilon, classical) <= delta
    assert exact_delta(epsilon, analytic) == pytest.approx(delta, rel=1e-6)


@given(st.floats(0.05, 100), st.floats(1e-9, 0.1))
def test_local_epsilon_inverts_the_analytic_sigma_at_distance_root_two(epsilon, delta):
    assert local_epsilon(math.sqrt(2) * analytic_gaussian_sigma(epsilon, delta), delta) == pytest.approx(
        epsilon, rel=1e-6
    )


def test_local_epsilon_of_almost_no_noise_is_unbounded():
    assert local_epsilon(1e-3) == math.inf


def test_clips_then_adds_scaled_noise():
    normals = np.array([1.0, -2.0])
    sigma = gaussian_sigma(1.0, 1e-5)
    long = _dp_noise_with(np.array([3.0, 4.0]), normals, clip=0.5, epsilon=1.0, delta=1e-5)
    assert long == pytest.approx(np.array([0.3, 0.4]) + 0.5 * sigma * normals)
    short = _dp_noise_with(np.array([0.3, 0.4]), normals, clip=10.0, epsilon=1.0, delta=1e-5)
    assert short == pytest.approx(np.array([0.3, 0.4]) + 10 * sigma * normals)


def test_noise_from_the_system_is_standard_normal_and_fresh():
    normals = _os_normals(100_001)
    assert normals.shape == (100_001,)
    assert kstest(normals, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(normals[:50_000], normals[50_000:100_000])[0, 1]) < 0.05
    vector = np.ones(10)
    assert not np.array_equal(dp_noise(vector, clip=1.0, epsilon=1.0), dp_noise(vector, clip=1.0, epsilon=1.0))


def test_the_noise_of_a_sample_is_that_of_a_distance_of_two_clips_in_n():
    noised = sample_noise(np.zeros(100_000), samples=8, clip=3.0, epsilon=0.5)
    assert np.std(noised) == pytest.approx(gaussian_sigma(0.5) * 2 * 3.0 / 8, rel=0.02)
    halved = _dp_noise_with(np.zeros(2), np.ones(2), clip=3.0, epsilon=0.5, delta=1e-5, distance=0.5)
    np.testing.assert_allclose(halved, gaussian_sigma(0.5) * 1.5)


def test_rows_are_clipped_each_for_itself():
    clipped = clip_rows([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], 1.0)
    np.testing.assert_allclose(clipped, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: gaussian_sigma(0.0), "epsilon"),
        (lambda: gaussian_sigma(1.5), "epsilon"),
        (lambda: gaussian_sigma(0.5, 0.0), "delta"),
        (lambda: gaussian_sigma(0.5, 1.0), "delta"),
        (lambda: dp_noise([], clip=1.0, epsilon=0.5), "vector"),
        (lambda: dp_noise([np.nan], clip=1.0, epsilon=0.5), "vector"),
        (lambda: dp_noise([1.0], clip=0.0, epsilon=0.5), "clip"),
        (lambda: dp_noise([1.0], clip=1.0, epsilon=-1.0), "epsilon"),
        (lambda: analytic_gaussian_sigma(0.0), "epsilon"),
        (lambda: local_epsilon(0.0), "sigma"),
        (lambda: sample_noise([1.0], samples=0, clip=1.0, epsilon=0.5), "samples"),
        (lambda: clip_rows([1.0], 1.0), "rows"),
        (lambda: clip_rows([[np.nan]], 1.0), "rows"),
        (lambda: clip_rows([[1.0]], np.inf), "clip"),
    ],
)
def test_bad_input_is_named(call, argument):
    with pytest.raises(InvalidInput) as error:
        call()
    assert error.value.argument == argument
