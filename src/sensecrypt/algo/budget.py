"""What share of its model each device can encrypt in time (paper, "Deduction of Encryption Budgets").

Two answers: `encryption_budgets`, the paper's, compares what the devices are; `deadline_budgets` measures what they do.
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
    """α_i: the largest share of its blocks that each client can encrypt and send before its cluster's deadline.

    The deadline is when the cluster's slowest client would be done without encryption, plus the longer of `slack`
    times that and `grace`: encryption holds no round up by more. Where the paper's budget gives the best equipped
    client 1 however slow all are, and a weak one little however idle it is, this one asks only what there is time for.

    A client without any time left still gets one block, as no budget is 0: what it must encrypt beyond that, the
    security floor says.

    Args:
        plain: seconds that each client's round takes without encryption: training, and the upload in the clear.
        scoring: seconds that choosing takes: sensitivity, selection, protection.
        block: seconds that one more encrypted block costs: encrypting it, and sending what it is longer than plain.
        blocks: blocks in the model.
        slack: how much longer than the slowest client's plain time a round may last, as a fraction of it.
        grace: the same in seconds, for rounds so short that a fraction of them is nothing.
        clusters: the clustering, or a label for each client; None: all clients are one cluster.

    Returns:
        One number in [1/blocks, 1] a client: a whole number of blocks, ⌊α · blocks⌋ of it being exactly that number.
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
    """`counts` of `blocks`, rounded up where rounding down would make ⌊α · blocks⌋ one block fewer (1/49 · 49 < 1)."""
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
        raise InvalidInput(argument, f"is {vector[worst]:g} for client {worst}", "pass seconds that were measured")
    return vector


def _resource(argument: str, values: npt.ArrayLike) -> checks.FloatVector:
    vector = checks.finite_vector(argument, values)
    if vector.min() <= 0:
        worst = int(vector.argmin())
        fix = "leave that client out, or give its real figure"
        raise InvalidInput(argument, f"is {vector[worst]:g} for client {worst}", fix)
    return vector
