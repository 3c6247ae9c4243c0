from __future__ import annotations

import pytest

from sensecrypt.algo.dp import gaussian_sigma, local_epsilon
from sensecrypt.config import make_config
from sensecrypt.records import ClientRecord
from sensecrypt.runs.noise import noise_facts, noise_summary, per_sample_noise

NOISE = {"sensitivity_epsilon": 0.5, "sensitivity_clip": 0.1}


def test_without_noise_nothing_is_told():
    for config in (make_config({}), make_config({**NOISE, "clustering": "none"})):
        assert noise_facts(config, 10) == {}
        assert noise_summary(config, []) is None


def test_a_record_tells_what_the_noise_is_worth_to_a_client():
    sigma = gaussian_sigma(0.5, 1e-5)
    assert noise_facts(make_config(NOISE), 10) == {"noise": "vector", "local_epsilon": local_epsilon(sigma)}
    sample = make_config({**NOISE, "sensitivity_noise": "sample"})
    assert per_sample_noise(sample)
    assert noise_facts(sample, 10) == {"noise": "sample", "local_epsilon": local_epsilon(2 * sigma / 10)}
    assert noise_facts(sample, 100_000) == {"noise": "sample", "local_epsilon": None}


@pytest.mark.parametrize(("worths", "worst"), [([1.0, 3.0, 2.0], 3.0), ([1.0, None], None), ([], None)])
def test_the_summary_tells_the_weakest(worths, worst):
    told = noise_summary(
        make_config(NOISE),
        [ClientRecord(round=-1, cluster=0, client=0, noise="vector", local_epsilon=each) for each in worths],
    )
    assert told == {"protects": "vector", "epsilon": 0.5, "delta": 1e-5, "clip": 0.1, "local_epsilon": worst}
