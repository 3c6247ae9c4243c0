from __future__ import annotations

import math

import numpy as np
import pytest

from sensecrypt import InvalidInput
from sensecrypt.lab.attacks.image_scores import match, psnr, score_images, ssim


def images(count=3, shape=(1, 14, 13), seed=0):
    return np.random.default_rng(seed).random((count, *shape))


def ssim_by_loop(one, other):
    """Wang et al., window by window."""
    near = np.arange(-5, 6)
    weight = np.exp(-(near[:, None] ** 2 + near**2) / (2 * 1.5**2))
    weight /= weight.sum()
    values = []
    for channel in range(one.shape[0]):
        for row in range(one.shape[1] - 10):
            for column in range(one.shape[2] - 10):
                x, y = (image[channel, row : row + 11, column : column + 11] for image in (one, other))
                mx, my = (weight * x).sum(), (weight * y).sum()
                vx, vy = (weight * (x - mx) ** 2).sum(), (weight * (y - my) ** 2).sum()
                cov = (weight * (x - mx) * (y - my)).sum()
                above = (2 * mx * my + 1e-4) * (2 * cov + 9e-4)
                values.append(above / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4)))
    return np.mean(values)


def test_ssim_is_the_papers():
    one, other = images(2, shape=(3, 14, 13))
    assert ssim(one, other) == pytest.approx(ssim_by_loop(one, other), abs=1e-12)
    assert ssim(one, one) == pytest.approx(1)
    assert ssim(one, 1 - one) < 0


def test_ssim_of_flat_images_by_hand():
    black, white = np.zeros((1, 12, 12)), np.ones((1, 12, 12))
    assert ssim(black, white) == pytest.approx(1e-4 / (1 + 1e-4))
    assert ssim(black, black) == 1


@pytest.mark.parametrize("side", [1, 2, 7, 8, 10])
def test_ssim_of_small_images(side):
    one = images(1, shape=(1, side, side))[0]
    assert ssim(one, one) == pytest.approx(1)


def test_ssim_is_scikit_images():
    metrics = pytest.importorskip("skimage.metrics")
    one, other = images(2, shape=(3, 20, 17))
    theirs = metrics.structural_similarity(
        one, other, channel_axis=0, data_range=1, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    assert ssim(one, other) == pytest.approx(theirs, abs=1e-9)


def test_psnr_by_hand():
    assert psnr([1.0, 0.01, 1e-8]).tolist() == pytest.approx([0, 20, 80])
    assert psnr(0.0) == math.inf


def test_each_recovered_image_is_scored_against_the_one_it_fits():
    truth = images(4)
    scores = score_images(truth[[2, 0, 3, 1]], truth)
    assert scores.order.tolist() == [1, 3, 0, 2]
    assert (scores.mse == 0).all()
    assert np.isinf(scores.psnr).all()
    assert scores.ssim == pytest.approx(np.ones(4))


def test_matching_is_best_in_sum_not_greedy():
    truth = np.array([0.0, 0.5]).reshape(2, 1, 1, 1)
    guesses = np.array([0.4, 0.9]).reshape(2, 1, 1, 1)  # greedy would give 0.4 to 0.5 and leave 0.9 for 0
    assert match(guesses, truth).tolist() == [0, 1]


def test_recovered_images_are_clipped():
    truth = np.ones((1, 1, 4, 4))
    assert score_images(np.full((1, 1, 4, 4), 1000.0), truth).mse[0] == 0
    assert score_images(np.full((1, 1, 4, 4), -1000.0), truth).psnr[0] == 0


@pytest.mark.parametrize(
    ("recovered", "truth", "argument"),
    [
        (images(2), images(3), "recovered"),
        (images(2) * np.nan, images(2), "recovered"),
        (images(2)[0], images(2), "recovered"),
        (images(2), images(2) * 255, "truth"),
        (images(2), (images(2) * 255).astype(np.uint8), "truth"),
    ],
)
def test_what_cannot_be_scored_is_named(recovered, truth, argument):
    with pytest.raises(InvalidInput) as error:
        score_images(recovered, truth)
    assert error.value.argument == argument
