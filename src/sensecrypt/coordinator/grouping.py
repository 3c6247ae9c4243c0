"""Clusters as a run's configuration asks for them: the same in both engines."""

from __future__ import annotations

import numpy as np

from sensecrypt.algo.clustering import cluster_clients
from sensecrypt.algo.merging import Matrix
from sensecrypt.config import RunConfig
from sensecrypt.errors import InvalidInput
from sensecrypt.rng import derive_rng
from sensecrypt.types import Clusters


def group_clients(rows: Matrix, config: RunConfig) -> Clusters:
    """Cluster the clients that are there; a cluster whose sums no key server would decrypt is refused.

    Args:
        rows: what describes each client's data.
        config: of the run; its clustering is not `none`.
    """
    if config.groups.clustering == "none":
        raise InvalidInput("clustering", "is none", "choose auto, ap or k-means")
    k = min(config.groups.clusters, len(rows)) or None
    clusters = cluster_clients(
        rows,
        random_state=derive_rng(config.problem.seed, "clustering"),
        min_size=max(2, config.release.min_contributors),
        method=config.groups.clustering,
        k=k if config.groups.clustering == "k-means" else None,
    )
    sizes = np.bincount(clusters.labels)
    least = min(config.release.min_contributors, len(rows)) if config.encryption.key_mode == "dkms" else 1
    if sizes.min() < least:
        small = f"{int((sizes < least).sum())} of {sizes.size} clusters have fewer than {least} clients"
        problem = f"{config.groups.clustering}: {small} (min_contributors), whose sums the key server never decrypts"
        raise InvalidInput("clustering", problem, "choose auto, fewer min_contributors, or key_mode shared-key")
    return clusters
