"""FedML-HE: one mask for all clients and rounds (Jin et al., "FedML-HE", 2023).

Before the first round, each client computes how much every parameter's gradient depends on the labels of its data (see
`sensecrypt.client.jacobian`). The clients' maps are averaged under encryption, weighted by samples, and the top share p
of the mean is encrypted in every round. It is the top of the mean, not a union of the clients' tops.
"""

from __future__ import annotations

import numpy as np

from sensecrypt.policies.policy import Policy
from sensecrypt.policies.ranked import best_blocks
from sensecrypt.policies.situation import Choice, Situation, asked_for


def choose(situation: Situation) -> Choice:
    """Return the first blocks of the common ranking, as many as the ratio allows.

    In the prefix layout, blocks are cut along the ranking. Otherwise the choice is the blocks that contain most of the
    top-ranked parameters. With one value per ciphertext these are exactly the published mask; a larger block is
    encrypted as a whole and includes some parameters that the published mask leaves out.
    """
    count = situation.ratio_blocks
    if situation.order is not None:
        return Choice(situation.mask_of(np.arange(count)))
    wanted = np.zeros(situation.size)
    wanted[asked_for("ranking", situation.ranking)[: count * situation.block]] = 1.0
    return Choice(situation.mask_of(best_blocks(situation, wanted)))


POLICY = Policy(choose, uses_ratio=True, ranks_by="jacobian")
