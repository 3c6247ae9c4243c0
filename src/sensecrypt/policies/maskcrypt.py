"""MaskCrypt: all clients agree on one mask (Hu and Li, "MaskCrypt", 2024).

A client scores parameter k by (w_exp,k − w_k) · g_k. Here w is its new model, g the mean gradient over its data at w
(or at the round's start model, if so configured) and w_exp the adversary's estimate of the model. The score is the
first-order change of the loss if the adversary uses its estimate instead of the true value. It is signed, as published:
parameters whose estimate would lower the loss rank last. Each client proposes its best ⌊ρN⌋ parameters. The aggregator
merges the proposals into one list, and every client encrypts the parameters on it.

w_exp starts as the initial model, which is public, and is updated with what is sent in the clear: see `expose`. It is
the same for all clients of a cluster, because they have the same mask and receive the same models.

The score of a block is the sum of its parameters' scores; with one value per ciphertext, that is the published method.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.policies.policy import Policy, RankedBlocks
from sensecrypt.policies.ranked import best_blocks
from sensecrypt.policies.situation import Choice, Situation, asked_for
from sensecrypt.types import BoolVector

Float32Vector = npt.NDArray[np.float32]


def score(exposed: Float32Vector, weights: Float32Vector, gradient: Float32Vector) -> checks.FloatVector:
    """Return (w_exp − w) · g of each parameter, in double precision, because many are summed."""
    with np.errstate(invalid="ignore"):  # the check below refuses a diverged model
        scores = (exposed.astype(np.float64) - weights) * gradient
    return checks.finite_vector("score", scores)


def expose(exposed: Float32Vector, encrypted: BoolVector, model: Float32Vector) -> Float32Vector:
    """Return the adversary's estimate after a round: the global model where it was plain, else the old estimate.

    A client's own plain upload is exposed as well. But the next global model overwrites the same positions, so one
    vector per cluster is enough.

    Args:
        exposed: the estimate before the round.
        encrypted: one bool per parameter, in the natural order.
        model: the global model that the clients receive.
    """
    return np.where(encrypted, exposed, model)


def propose(situation: Situation) -> RankedBlocks:
    """Return the blocks with the highest scores, best first, as many as the ratio allows."""
    exposed, gradient = asked_for("exposed", situation.exposed), asked_for("gradient", situation.gradient)
    return best_blocks(situation, score(exposed, situation.weights, gradient))


def consensus(proposals: Sequence[RankedBlocks], blocks: int) -> RankedBlocks:
    """Return all proposed blocks without repetition: all first choices, then all second choices, and so on.

    Args:
        proposals: one ranking per client; at equal rank, earlier clients go first.
        blocks: number of blocks in the model.
    """
    none = np.empty(0, dtype=np.int64)
    proposed = np.concatenate([none, *proposals])
    if proposed.size and (proposed.min() < 0 or proposed.max() >= blocks):
        problem = f"contain a block outside 0 … {blocks - 1:,}"
        raise InvalidInput("proposals", problem, "use the same model and the same profile on all clients")
    ranks = np.concatenate([none, *(np.arange(len(each)) for each in proposals)])
    interleaved = proposed[np.argsort(ranks, kind="stable")]
    places = np.arange(interleaved.size)
    first = np.empty(blocks, dtype=np.int64)
    first[interleaved[::-1]] = places[::-1]  # the last assignment to a block remains: its first place
    listed: RankedBlocks = interleaved[first[interleaved] == places]
    return listed


def agree(proposals: Sequence[RankedBlocks], blocks: int, limit: int) -> BoolVector:
    """Return the mask of variant `maskcrypt`: the list, cut to the length of one client's proposal."""
    return _flags(consensus(proposals, blocks)[:limit], blocks)


def unite(proposals: Sequence[RankedBlocks], blocks: int, _limit: int) -> BoolVector:
    """Return the mask of variant `maskcrypt_union`: the whole list, as in the published code."""
    return _flags(consensus(proposals, blocks), blocks)


def choose(situation: Situation) -> Choice:
    """Encrypt the blocks that the clients agreed on."""
    return Choice(situation.mask(asked_for("agreed", situation.agreed)))


def _flags(listed: RankedBlocks, blocks: int) -> BoolVector:
    flags = np.zeros(blocks, dtype=bool)
    flags[listed] = True
    return flags


POLICY = Policy(choose, needs_gradient=True, uses_ratio=True, propose=propose, agree=agree)
UNION = Policy(choose, needs_gradient=True, uses_ratio=True, propose=propose, agree=unite)
