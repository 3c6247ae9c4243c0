"""iLRG against published runs of its authors: their network, their fifty batches, their results, batch by batch.

Their public code and logs (FCN-3 on MNIST) give everything but one thing, which the logs give away: on 2022-09-03 (32,
64 and 128 samples) images were cropped and mirrored at random, on 2022-09-15 (24 samples) they were not.
"""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.data import load_dataset
from sensecrypt.lab.attacks.ilrg import counts
from sensecrypt.lab.attacks.scores import score_labels
from sensecrypt.lab.experiments.anchor_batches import their_run

# Samples, moved or not, LeAcc, LnAcc, and of two batches what is in them and what was found.
LOGS = [
    (24, False, 1.000, 0.994, {0: ("5111440215", "5111440215"), 14: ("2131062432", "2131062532")}),
    (32, True, 0.982, 0.804, {1: ("4223234354", "4223244354"), 14: ("4632142343", "3551132354")}),
    (
        64,
        True,
        0.998,
        0.598,
        {
            1: ([5, 6, 8, 7, 3, 5, 6, 11, 7, 6], [4, 5, 10, 6, 3, 5, 6, 11, 9, 5]),
            30: ([3, 8, 6, 10, 5, 5, 3, 12, 6, 6], [1, 6, 3, 7, 2, 2, 1, 10, 3, 29]),
        },
    ),
    (
        128,
        True,
        1.000,
        0.386,
        {
            0: ([15, 10, 11, 11, 10, 14, 10, 16, 15, 16], [17, 8, 12, 12, 9, 14, 9, 16, 14, 16]),
            27: ([8, 12, 13, 17, 12, 14, 14, 13, 13, 12], [5, 9, 14, 15, 10, 13, 14, 15, 9, 24]),
        },
    ),
]


@pytest.mark.real_data
@pytest.mark.parametrize(("samples", "moved", "leacc", "lnacc", "batches"), LOGS)
def test_a_published_run_comes_out_again(samples, moved, leacc, lnacc, batches):
    results = list(their_run("FCN-3", load_dataset("mnist"), samples, moved=moved))
    for number, (true, found) in batches.items():
        raw, truth = results[number]
        assert truth.tolist() == [int(count) for count in true]
        assert counts(raw, samples).tolist() == [int(count) for count in found]
    scores = [score_labels(raw, truth) for raw, truth in results]
    assert np.mean([score.leacc for score in scores]) == pytest.approx(leacc, abs=0.0005)
    assert np.mean([score.lnacc for score in scores]) == pytest.approx(lnacc, abs=0.0005)
