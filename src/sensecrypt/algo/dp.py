"""Differential privacy for the vectors that clients upload for clustering (paper, Appendix G).

The paper ("DP-noised Sensitivity Vectors") clips Γ to L2 norm G and adds N(0, σ²G²) to every coordinate, with
σ = √(2·ln(1.25/δ))/ε. Two limits of this ε:

* The formula is the classical Gaussian mechanism, which is proven only for ε ≤ 1. `gaussian_sigma` refuses larger
  values; for these, `analytic_gaussian_sigma` (Balle and Wang 2018) is exact.
* It assumes a distance of G between neighbouring inputs. Each client adds noise to its own vector, so any two clipped
  vectors are neighbours, and two non-negative vectors of norm G can be √2·G apart. As *local* differential privacy,
  the guarantee is therefore that of σ/√2. `local_epsilon` computes it.

A second reading protects one sample instead of the whole vector, like DP-SGD, to which the paper refers. Γ is
|mean over n samples of w·g_j|. If every w·g_j is clipped to norm G, replacing one sample changes the mean, and so its
absolute value, by at most 2G/n: noise N(0, σ²(2G/n)²) gives (ε, δ) to each sample. `local_epsilon(2σ/n)` is the
guarantee for the whole vector: next to nothing for large n.
"""

from __future__ import annotations

import math
import os

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput


def gaussian_sigma(epsilon: float, delta: float = 1e-5) -> float:
    """Return σ of the classical Gaussian mechanism for (ε, δ) at distance 1, for ε ≤ 1."""
    eps = checks.number("epsilon", epsilon, low=0.0, open_low=True)
    if eps > 1:
        problem = f"is {eps:g}; the classical formula is proven only up to 1"
        raise InvalidInput("epsilon", problem, "pass at most 1, or use analytic_gaussian_sigma")
    return math.sqrt(2 * math.log(1.25 / _check_delta(delta))) / eps


def analytic_gaussian_sigma(epsilon: float, delta: float = 1e-5) -> float:
    """Return the smallest σ that gives (ε, δ) at distance 1, for any ε > 0."""
    eps = checks.number("epsilon", epsilon, low=0.0, high=700.0, open_low=True)
    target = _check_delta(delta)
    low, high = 1e-6, 1.0
    while _gaussian_delta(eps, high) > target:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(eps, middle) > target else (low, middle)
    return high


def local_epsilon(sigma: float, delta: float = 1e-5) -> float:
    """Return the ε that N(0, σ²G²) gives to a client's whole non-negative vector clipped to G (distance √2·G)."""
    scale = checks.number("sigma", sigma, low=0.0, open_low=True) / math.sqrt(2)
    target = _check_delta(delta)
    low, high = 0.0, 1.0
    while _gaussian_delta(high, scale) > target:
        high *= 2
        if high > 512:
            return math.inf
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(middle, scale) > target else (low, middle)
    return high


def dp_noise(vector: npt.ArrayLike, *, clip: float, epsilon: float, delta: float = 1e-5) -> checks.FloatVector:
    """Return `vector` clipped to L2 norm `clip` plus Gaussian noise from the operating system's generator.

    Floating-point Gaussians do not resist an adversary who studies the last bits of single outputs (Mironov 2012).

    Args:
        vector: Γ, N numbers.
        clip: G, the bound on the L2 norm.
        epsilon: in (0, 1].
        delta: in (0, 1).
    """
    values = checks.finite_vector("vector", vector)
    return _dp_noise_with(values, _os_normals(values.size), clip=clip, epsilon=epsilon, delta=delta)


def sample_noise(
    vector: npt.ArrayLike, *, samples: int, clip: float, epsilon: float, delta: float = 1e-5
) -> checks.FloatVector:
    """Return `vector` plus the noise that protects one of n samples, from the operating system's generator.

    Args:
        vector: |mean of n parts|, each clipped to L2 norm `clip` by `clip_rows`. Neighbours differ in the content of
            one sample; n is public and does not change.
        samples: n.
        clip: G.
        epsilon: in (0, 1], for one sample.
        delta: in (0, 1).
    """
    values = checks.finite_vector("vector", vector)
    distance = 2 / checks.whole("samples", samples, low=1)
    normals = _os_normals(values.size)
    return _dp_noise_with(values, normals, clip=clip, epsilon=epsilon, delta=delta, distance=distance)


def clip_rows(rows: npt.ArrayLike, clip: float) -> checks.FloatVector:
    """Return the rows (rows × N), each scaled down to L2 norm `clip` if it is longer."""
    bound = checks.number("clip", clip, low=0.0, open_low=True)
    values = np.asarray(rows, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise InvalidInput("rows", "are not a matrix of finite numbers", "check the training step for divergence")
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.maximum(1.0, lengths / bound), dtype=np.float64)


def _dp_noise_with(
    values: checks.FloatVector,
    normals: checks.FloatVector,
    *,
    clip: float,
    epsilon: float,
    delta: float,
    distance: float = 1.0,
) -> checks.FloatVector:
    """Return the clipped vector with noise from given standard normal numbers: the deterministic part of both readings.

    Args:
        values: the vector.
        normals: one standard normal number per value.
        clip: G.
        epsilon: in (0, 1].
        delta: in (0, 1).
        distance: the distance of neighbouring vectors, in units of `clip`.
    """
    bound = checks.number("clip", clip, low=0.0, open_low=True)
    noise = normals * (gaussian_sigma(epsilon, delta) * bound * distance)
    return values / max(1.0, float(np.linalg.norm(values)) / bound) + noise


def _os_normals(count: int) -> checks.FloatVector:
    """Return standard normal numbers (Box–Muller) from the operating system's random bytes."""
    pairs = -(-count // 2)
    words = np.frombuffer(os.urandom(16 * pairs), dtype=np.uint64).reshape(2, pairs)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # strictly between 0 and 1
    radius = np.sqrt(-2.0 * np.log(uniform[0]))
    angle = 2.0 * np.pi * uniform[1]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def _check_delta(delta: float) -> float:
    value = checks.number("delta", delta, low=0.0, high=1.0, open_low=True)
    if value == 1:
        raise InvalidInput("delta", "is 1", "pass a number in (0, 1), such as 1e-5")
    return value


def _gaussian_delta(epsilon: float, sigma: float) -> float:
    """Return δ(ε) of the Gaussian mechanism at distance 1: Φ(1/2σ − εσ) − e^ε·Φ(−1/2σ − εσ)."""
    a, b = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
    return _phi(a) - math.exp(epsilon + _log_phi(b))


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _log_phi(x: float) -> float:
    """Return the logarithm of Φ(x), by the leading term of its expansion if Φ underflows."""
    value = _phi(x)
    return math.log(value) if value > 0 else -x * x / 2 - math.log(-x * math.sqrt(2 * math.pi))
