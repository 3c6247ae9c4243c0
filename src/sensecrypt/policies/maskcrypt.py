"""MaskCrypt: one mask for all clients, by agreement (Hu and Li, "MaskCrypt", 2024).

A client scores parameter k by (w_exp,k − w_k) · g_k, where w is its new model, g the mean gradient over its data at w
(or at the model that the round started from, if the run is so configured) and w_exp what an adversary knows of the
model: the first-order change of the loss if the adversary used its estimate in place of the true value. The score is
signed, as published: what would lower the adversary's loss ranks last. Each client proposes its best ⌊ρN⌋; the
aggregator makes one list of the proposals, and everybody encrypts what is on it.

w_exp starts as the initial model, which everybody knows, and follows what is sent in the clear: see `expose`. It is
the same for all clients of a cluster, since they have the same mask and receive the same models.

Here the score of a block is the sum of its parameters' scores; with one value a ciphertext, that is the published
method.
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
    """(w_exp − w) · g of each parameter, in double precision, since sums of many follow."""
    with np.errstate(invalid="ignore"):  # a diverged model is refused by name below
        scores = (exposed.astype(np.float64) - weights) * gradient
    return checks.finite_vector("score", scores)


def expose(exposed: Float32Vector, encrypted: BoolVector, model: Float32Vector) -> Float32Vector:
    """What the adversary knows after a round: the new global model where it was plain, its old estimate elsewhere.

    A client's own plain upload is exposed, too. But the global model that follows overwrites the same positions, so
    one vector a cluster is enough.

    Args:
        exposed: what it knew before.
        encrypted: one bool a parameter, in the natural order.
        model: the global model that the clients receive.
    """
    return np.where(encrypted, exposed, model)


def propose(situation: Situation) -> RankedBlocks:
    """As many blocks as the ratio allows, the highest scores first."""
    exposed, gradient = asked_for("exposed", situation.exposed), asked_for("gradient", situation.gradient)
    return best_blocks(situation, score(exposed, situation.weights, gradient))


def consensus(proposals: Sequence[RankedBlocks], blocks: int) -> RankedBlocks:
    """All first choices, then all second ones and so on, each block where it comes first.

    Args:
        proposals: one ranking a client; in equal ranks, an earlier client goes first.
        blocks: number of blocks in the model.
    """
    none = np.empty(0, dtype=np.int64)
    proposed = np.concatenate([none, *proposals])
    if proposed.size and (proposed.min() < 0 or proposed.max() >= blocks):
        problem = f"have a block outside 0 … {blocks - 1:,}"
        raise InvalidInput("proposals", problem, "let all clients cut the same model into the same blocks")
    ranks = np.concatenate([none, *(np.arange(len(each)) for each in proposals)])
    interleaved = proposed[np.argsort(ranks, kind="stable")]
    places = np.arange(interleaved.size)
    first = np.empty(blocks, dtype=np.int64)
    first[interleaved[::-1]] = places[::-1]  # of several assignments to one block, the last stays: its first place
    listed: RankedBlocks = interleaved[first[interleaved] == places]
    return listed


def agree(proposals: Sequence[RankedBlocks], blocks: int, limit: int) -> BoolVector:
    """The variant `budget`: the list is cut so that the mask is no larger than one client's proposal."""
    return _flags(consensus(proposals, blocks)[:limit], blocks)


def unite(proposals: Sequence[RankedBlocks], blocks: int, _limit: int) -> BoolVector:
    """The variant `union`, as shipped: the whole list, up to one proposal a client."""
    return _flags(consensus(proposals, blocks), blocks)


def choose(situation: Situation) -> Choice:
    """What was agreed on."""
    return Choice(situation.mask(asked_for("agreed", situation.agreed)))


def _flags(listed: RankedBlocks, blocks: int) -> BoolVector:
    flags = np.zeros(blocks, dtype=bool)
    flags[listed] = True
    return flags


POLICY = Policy(choose, needs_gradient=True, uses_ratio=True, propose=propose, agree=agree)
UNION = Policy(choose, needs_gradient=True, uses_ratio=True, propose=propose, agree=unite)
