"""The noise of Appendix G in a run: whether it is on, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from sensecrypt.algo.dp import gaussian_sigma, local_epsilon
from sensecrypt.config import RunConfig
from sensecrypt.records import ClientRecord


def noise_is_on(config: RunConfig) -> bool:
    """Whether clients add noise to what they send for clustering."""
    return config.groups.sensitivity_epsilon > 0 and config.groups.clustering != "none"


def per_sample_noise(config: RunConfig) -> bool:
    """Whether they clip every sample's part of their sensitivities, and add noise that protects one sample."""
    return noise_is_on(config) and config.groups.sensitivity_noise == "sample"


def noise_facts(config: RunConfig, samples: int) -> dict[str, Any]:
    """Fields of a client's set-up record about its noise; none without noise.

    `local_epsilon` is what the noise guarantees to the client's whole vector; None: more than 512, which is nothing.

    Args:
        config: of the run.
        samples: of the client.
    """
    if not noise_is_on(config):
        return {}
    sigma = gaussian_sigma(config.groups.sensitivity_epsilon, config.groups.sensitivity_delta)
    worth = local_epsilon(2 * sigma / samples if per_sample_noise(config) else sigma, config.groups.sensitivity_delta)
    return {"noise": config.groups.sensitivity_noise, "local_epsilon": worth if math.isfinite(worth) else None}


def noise_summary(config: RunConfig, records: Iterable[ClientRecord]) -> dict[str, Any] | None:
    """The noise of a run: its settings, and the weakest `local_epsilon` of all clients; None without noise."""
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
