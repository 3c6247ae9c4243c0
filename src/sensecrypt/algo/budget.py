"""Encryption budgets: the share of its model that each device can encrypt in time.

`encryption_budgets` is the paper's ("Deduction of Encryption Budgets") and compares the devices' specifications.
`deadline_budgets` is ours and uses measured times.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.types import Clusters


def encryption_budgets(
    bandwidth: npt.ArrayLike, cpu_speed: npt.ArrayLike, *, clusters: Clusters | npt.ArrayLike | None = None
) -> checks.FloatVector:
    """Return α_i: each client's scarcer resource, relative to the best equipped client of its cluster.

    Both resources are divided by their maximum over the cluster. The smaller of the two is a client's capability.
    Capabilities are again divided by their maximum, so that the fastest client of every cluster gets 1.

    Args:
        bandwidth: r_i of each client, in any unit.
        cpu_speed: v_i of each client, in any unit (clock × cores).
        clusters: the clustering, or one label per client; None: all clients are one cluster.

    Returns:
        One number in (0, 1] per client.
    """
    r, v = _resource("bandwidth", bandwidth), _resource("cpu_speed", cpu_speed)
    checks.same_length("cpu_speed", v, r.size, "bandwidth")
    labels = _labels(clusters, r.size, "bandwidth")
    budgets = np.empty(r.size)
    for label in np.unique(labels):
        members = labels == label
        capability = np.minimum(r[members] / r[members].max(), v[members] / v[members].max())
        budgets[members] = capability / capability.max()
    return budgets


def deadline_budgets(
    plain: npt.ArrayLike,
    scoring: npt.ArrayLike,
    block: npt.ArrayLike,
    *,
    blocks: int,
    slack: float = 0.1,
    grace: float = 1.0,
    clusters: Clusters | npt.ArrayLike | None = None,
) -> checks.FloatVector:
    """Return α_i: the largest share of its blocks that each client can encrypt and send before its cluster's deadline.

    The deadline is the time t at which the cluster's slowest client would finish without encryption, plus the larger
    of `slack`·t and `grace`. So encryption delays no round by more than that. The paper's budget gives the best
    equipped client 1 even if it is slow, and a weak client little even if it is idle; this budget is what each client
    has time for.

    Budgets are positive: a client without time left gets one block. The security floor decides whether it must encrypt
    more.

    Args:
        plain: seconds of each client's round without encryption: training, and the upload in the clear.
        scoring: seconds for computing sensitivities, selection and protection.
        block: seconds per additional encrypted block: encrypting it and sending its additional bytes.
        blocks: blocks in the model.
        slack: how much longer than t a round may last, as a fraction of t.
        grace: the same in seconds, for rounds so short that a fraction of t is negligible.
        clusters: the clustering, or one label per client; None: all clients are one cluster.

    Returns:
        One number in [1/blocks, 1] per client. It stands for a whole number of blocks: ⌊α · blocks⌋ is exact.
    """
    usual, choosing, each = _seconds("plain", plain), _seconds("scoring", scoring), _resource("block", block)
    checks.same_length("scoring", choosing, usual.size, "plain")
    checks.same_length("block", each, usual.size, "plain")
    checks.whole("blocks", blocks, low=1)
    checks.number("slack", slack, low=0.0)
    checks.number("grace", grace, low=0.0)
    labels = _labels(clusters, usual.size, "plain")
    in_time = np.empty(usual.size)
    with np.errstate(over="ignore"):  # more time than floats can count is time for all blocks
        for label in np.unique(labels):
            members = labels == label
            slowest = usual[members].max()
            deadline = slowest + max(slack * slowest, grace)
            in_time[members] = np.floor((deadline - usual[members] - choosing[members]) / each[members])
    return _share(np.clip(in_time, 1, blocks), blocks)


def _share(counts: checks.FloatVector, blocks: int) -> checks.FloatVector:
    """Return `counts` / `blocks`, rounded up if ⌊α · blocks⌋ would otherwise be one block fewer (1/49 · 49 < 1)."""
    shares = counts / blocks
    return np.where(shares * blocks < counts, np.nextafter(shares, 1.0), shares)


def _labels(clusters: Clusters | npt.ArrayLike | None, size: int, of: str) -> npt.NDArray[np.generic]:
    if clusters is None:
        return np.zeros(size, dtype=np.int64)
    labels = clusters.labels if isinstance(clusters, Clusters) else np.asarray(clusters)
    checks.same_length("clusters", labels, size, of)
    return labels


def _seconds(argument: str, values: npt.ArrayLike) -> checks.FloatVector:
    vector = checks.finite_vector(argument, values)
    if vector.min() < 0:
        worst = int(vector.argmin())
        raise InvalidInput(argument, f"is {vector[worst]:g} for client {worst}", "pass measured seconds")
    return vector


def _resource(argument: str, values: npt.ArrayLike) -> checks.FloatVector:
    vector = checks.finite_vector(argument, values)
    if vector.min() <= 0:
        worst = int(vector.argmin())
        fix = "leave that client out, or give its real figure"
        raise InvalidInput(argument, f"is {vector[worst]:g} for client {worst}", fix)
    return vector
