"""The noise of Appendix G in a run: whether it is on, and its guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from sensecrypt.algo.dp import gaussian_sigma, local_epsilon
from sensecrypt.config import RunConfig
from sensecrypt.records import ClientRecord


def noise_is_on(config: RunConfig) -> bool:
    """Return whether clients add noise to the vectors that they send for clustering."""
    return config.groups.sensitivity_epsilon > 0 and config.groups.clustering != "none"


def per_sample_noise(config: RunConfig) -> bool:
    """Return whether clients clip each sample's part of their sensitivities, and the noise protects one sample."""
    return noise_is_on(config) and config.groups.sensitivity_noise == "sample"


def noise_facts(config: RunConfig, samples: int) -> dict[str, Any]:
    """Return the fields of a client's setup record about its noise; empty without noise.

    `local_epsilon` is the ε for the client's whole vector; None: more than 512, which is no guarantee.

    Args:
        config: the run's configuration.
        samples: the client's number of samples.
    """
    if not noise_is_on(config):
        return {}
    sigma = gaussian_sigma(config.groups.sensitivity_epsilon, config.groups.sensitivity_delta)
    worth = local_epsilon(2 * sigma / samples if per_sample_noise(config) else sigma, config.groups.sensitivity_delta)
    return {"noise": config.groups.sensitivity_noise, "local_epsilon": worth if math.isfinite(worth) else None}


def noise_summary(config: RunConfig, records: Iterable[ClientRecord]) -> dict[str, Any] | None:
    """Return the noise settings of a run and the weakest `local_epsilon` of all clients; None without noise."""
    if not noise_is_on(config):
        return None
    worths = [record.local_epsilon for record in records if record.noise is not None]
    return {
        "protects": config.groups.sensitivity_noise,
        "epsilon": config.groups.sensitivity_epsilon,
        "delta": config.groups.sensitivity_delta,
        "clip": config.groups.sensitivity_clip,
        "local_epsilon": None if None in worths else max((each for each in worths if each is not None), default=None),
    }
