"""Similarity of recovered images to the true ones they match: MSE, PSNR and SSIM.

Recovered images are first clipped to [0, 1], as any attacker would do. Otherwise the score of a failure would depend on
how far the optimiser diverged (-30 dB and below), although all failures look like noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import correlate1d
from scipy.optimize import linear_sum_assignment

from sensecrypt import checks
from sensecrypt.checks import FloatVector, IntVector
from sensecrypt.errors import InvalidInput

Images = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ImageScores:
    """Scores with one number per true image."""

    order: IntVector  # which recovered image is scored against it
    mse: FloatVector  # mean squared error of a pixel
    psnr: FloatVector  # -10 · log10(mse), in dB; infinite for equal images
    ssim: FloatVector  # structural similarity, 1 for equal images


def score_images(recovered: npt.ArrayLike, truth: npt.ArrayLike) -> ImageScores:
    """Match recovered to true images and score each pair; both are (K, channels, height, width), the truth in 0 … 1."""
    guesses, originals = _batch("recovered", recovered).clip(0, 1), _batch("truth", truth)
    if guesses.shape != originals.shape:
        problem = f"has shape {guesses.shape}, truth {originals.shape}"
        raise InvalidInput("recovered", problem, "recover as many images as there were")
    if originals.min() < 0 or originals.max() > 1:
        raise InvalidInput("truth", "has pixels outside 0 … 1", "divide bytes by 255")
    order = match(guesses, originals)
    pairs = list(zip(guesses[order], originals, strict=True))
    errors = np.array([np.mean((guess - original) ** 2) for guess, original in pairs])
    return ImageScores(order, errors, psnr(errors), np.array([ssim(*pair) for pair in pairs]))


def match(recovered: Images, truth: Images) -> IntVector:
    """For each true image a recovered one, with the least sum of squared errors (the Hungarian method).

    The gradient of a batch does not depend on its order, so attacks cannot know it.
    """
    flat, goal = recovered.reshape(len(recovered), -1), truth.reshape(len(truth), -1)
    costs = np.stack([((flat - row) ** 2).mean(axis=1) for row in goal])
    return np.asarray(linear_sum_assignment(costs)[1], dtype=np.int64)


def psnr(mse: npt.ArrayLike) -> FloatVector:
    """Peak signal-to-noise ratio of images whose peak is 1, in dB."""
    with np.errstate(divide="ignore"):
        return np.asarray(-10 * np.log10(mse), dtype=np.float64)


def ssim(one: Images, other: Images) -> float:
    """Structural similarity of two images inside 0 … 1, mean of the channels (Wang et al., IEEE TIP 2004).

    Images are (channels, height, width). The window is Gaussian, 11 pixels wide with deviation 1.5, and used only where
    it lies inside; smaller images get the largest odd window that fits.
    """
    window = min(11, *(side - (side + 1) % 2 for side in one.shape[1:]))
    near = np.arange(window) - window // 2
    kernel = np.exp(-0.5 * (near / 1.5) ** 2)
    kernel /= kernel.sum()
    inside = (slice(None), *(slice(window // 2, side - window // 2) for side in one.shape[1:]))

    def smooth(values: Images) -> Images:
        rows = correlate1d(values, kernel, axis=1)
        return np.asarray(correlate1d(rows, kernel, axis=2), dtype=np.float64)[inside]

    mean, other_mean = smooth(one), smooth(other)
    variance, other_variance = smooth(one**2) - mean**2, smooth(other**2) - other_mean**2
    covariance = smooth(one * other) - mean * other_mean
    light, contrast = 0.01**2, 0.03**2
    alike = (2 * mean * other_mean + light) * (2 * covariance + contrast)
    return float(np.mean(alike / ((mean**2 + other_mean**2 + light) * (variance + other_variance + contrast))))


def _batch(argument: str, images: npt.ArrayLike) -> Images:
    array = checks.numeric_array(argument, images, kinds="f")
    if array.ndim != 4 or array.size == 0 or not np.isfinite(array).all():
        fix = "pass finite floats as (images, channels, height, width)"
        raise InvalidInput(argument, f"of shape {array.shape} is no batch of images", fix)
    return array.astype(np.float64)
