"""FedML-HE: one mask for all clients and rounds (Jin et al., "FedML-HE", 2023).

Before the first round, each client maps how much every parameter's gradient follows the labels of its data (see
`sensecrypt.client.jacobian`). The clients' maps are averaged under encryption, weighted by samples, and the top share
p of the mean is encrypted from then on. It is the top of the mean, not a union of the clients' tops.
"""

from __future__ import annotations

import numpy as np

from sensecrypt.policies.policy import Policy
from sensecrypt.policies.ranked import best_blocks
from sensecrypt.policies.situation import Choice, Situation, asked_for


def choose(situation: Situation) -> Choice:
    """The first blocks of the agreed ranking, as many as the ratio allows.

    In the prefix layout the blocks are cut along the ranking itself. Otherwise they are those that hold the most of
    the parameters that the ratio stands for: with one value a ciphertext exactly these parameters, as published; a
    larger block can only be encrypted whole, and brings along some that the published mask would leave out.
    """
    count = situation.ratio_blocks
    if situation.order is not None:
        return Choice(situation.mask_of(np.arange(count)))
    wanted = np.zeros(situation.size)
    wanted[asked_for("ranking", situation.ranking)[: count * situation.block]] = 1.0
    return Choice(situation.mask_of(best_blocks(situation, wanted)))


POLICY = Policy(choose, uses_ratio=True, ranks_by="jacobian")
