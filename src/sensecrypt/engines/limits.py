"""The limits on weights that a key service enforces, on one machine: a run that is outside of them says so.

Weights here are n_i / Σ n_j, as the paper has them. A fleet moves them until its key service's rules hold; to do so
here would change the models of ordinary uneven runs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from sensecrypt.config import RunConfig
from sensecrypt.errors import Rejected
from sensecrypt.protocol.sumrules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT, SumRules

_LOG = logging.getLogger("sensecrypt.run")


def warn_of_weights(config: RunConfig, clusters: Sequence[Mapping[int, float]]) -> None:
    """One warning if a key service with default limits would not open sums of some clusters, with the first reason.

    Args:
        config: of the run; clients that share the key are outside of all such rules.
        clusters: of every cluster, the weights of its members.
    """
    if config.key_mode != "dkms":
        return
    rules = SumRules(config.min_contributors, config.quorum, LARGEST_WEIGHT, LARGEST_RATIO, COLLUDERS)
    reasons = []
    for weights in clusters:
        try:
            rules.check(weights, weights.keys())
        except Rejected as error:
            reasons.append(str(error))
    if reasons:
        told = (len(reasons), len(clusters), reasons[0])
        _LOG.warning("weights of %d of %d cluster(s) are outside a key service's limits, not enforced here: %s", *told)
