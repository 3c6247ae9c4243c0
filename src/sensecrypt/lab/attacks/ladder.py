"""The adversaries, weakest first: each estimates from an `Observation` how many samples of each class a client had.

name                 what it sees and does
prior                nothing: K/C of every class
zero-fill            the plain part of the last layer; sets hidden gradients to 0 and runs iLRG: the paper's attacker
zero-fill-direction  the same; where a bias gradient is hidden, the embedding is capped as a whole
stale-fill           as zero-fill, with the last exposed value of hidden coordinates: MaskCrypt's attacker
completion           the same, and the mask: completes the matrix by equations that every such gradient fulfils
prototype            any plain coordinates, and labelled public data
sensitivity          Γ in the clear, which some protocols upload for clustering
mask-only            which positions are hidden, and labelled public data
value-matching       plain values whose positions are secret, the model they started from, and labelled public data

Neither way of capping is always the stronger one: LeAcc/LnAcc on LeNet-5, MNIST, 30 samples, the 3.1 % with the
highest sensitivity hidden, 30 clients: zero-fill .30/.03 on IID clients and .73/.70 on clients of one class;
zero-fill-direction .43/.07 and .62/.61.

A colluding client is not a separate adversary: it has a wider observation. `prior` is in every table, because an attack
that does not exceed it has learnt nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from sensecrypt.checks import IntVector
from sensecrypt.errors import NotApplicable
from sensecrypt.lab.attacks.fills import completion, prior, stale_fill, zero_fill
from sensecrypt.lab.attacks.maskonly import mask_only
from sensecrypt.lab.attacks.observation import FloatVector, Observation
from sensecrypt.lab.attacks.prototype import prototype
from sensecrypt.lab.attacks.scores import LabelScores, score_labels
from sensecrypt.lab.attacks.signs import sensitivity
from sensecrypt.lab.attacks.valuematching import value_matching

Adversary = Callable[[Observation], FloatVector]

ADVERSARIES: dict[str, Adversary] = {
    "prior": prior,
    "zero-fill": zero_fill,
    "zero-fill-direction": partial(zero_fill, keep_direction=True),
    "stale-fill": stale_fill,
    "completion": completion,
    "prototype": prototype,
    "sensitivity": sensitivity,
    "mask-only": mask_only,
    "value-matching": value_matching,
}


def attack_labels(
    observation: Observation, counts: IntVector, names: Iterable[str]
) -> Iterator[tuple[str, LabelScores]]:
    """The name and scores of each adversary against the true class counts; one without its inputs is skipped."""
    for name in names:
        try:
            raw = ADVERSARIES[name](observation)
        except NotApplicable:
            continue
        yield name, score_labels(raw, counts)
