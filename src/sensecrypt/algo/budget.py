"""What share of its model each device can encrypt in time (paper, "Deduction of Encryption Budgets")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.types import Clusters


def encryption_budgets(
    bandwidth: npt.ArrayLike, cpu_speed: npt.ArrayLike, *, clusters: Clusters | npt.ArrayLike | None = None
) -> checks.FloatVector:
    """α_i: each client's scarcer resource, relative to the best equipped client of its cluster.

    Both resources are divided by their maximum over the cluster; the smaller of the two is a client's capability;
    and capabilities are divided by their maximum again, so that the fastest client of every cluster gets 1.

    Args:
        bandwidth: r_i of each client, any unit.
        cpu_speed: v_i of each client, any unit (clock × cores).
        clusters: the clustering, or a label for each client; None: all clients are one cluster.

    Returns:
        One number in (0, 1] a client.
    """
    r, v = _resource("bandwidth", bandwidth), _resource("cpu_speed", cpu_speed)
    checks.same_length("cpu_speed", v, r.size, "bandwidth")
    if clusters is None:
        labels = np.zeros(r.size, dtype=np.int64)
    else:
        labels = clusters.labels if isinstance(clusters, Clusters) else np.asarray(clusters)
        checks.same_length("clusters", labels, r.size, "bandwidth")
    budgets = np.empty(r.size)
    for label in np.unique(labels):
        members = labels == label
        capability = np.minimum(r[members] / r[members].max(), v[members] / v[members].max())
        budgets[members] = capability / capability.max()
    return budgets


def _resource(argument: str, values: npt.ArrayLike) -> checks.FloatVector:
    vector = checks.finite_vector(argument, values)
    if vector.min() <= 0:
        worst = int(vector.argmin())
        fix = "leave that client out, or give its real figure"
        raise InvalidInput(argument, f"is {vector[worst]:g} for client {worst}", fix)
    return vector
