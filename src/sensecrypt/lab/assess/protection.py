"""What a policy leaves in sight of a synthetic client: masks made by the policies themselves.

A client is judged among peers. Those of SenseCrypt hold data alike, as clustering gives it; those of MaskCrypt and
FedML-HE are everybody, with classes of their own. Where a client decides alone and by a ratio, it has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from sensecrypt.algo.ordering import descending_order
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.checks import IntVector
from sensecrypt.config import make_config
from sensecrypt.crypto.encoding import FixedPoint
from sensecrypt.lab.assess.peers import Peers
from sensecrypt.lab.attacks.observation import FloatVector, Observation, Unplaced
from sensecrypt.lab.attacks.synthetic import SyntheticClient
from sensecrypt.models import always_encrypt
from sensecrypt.policies import get_policy
from sensecrypt.policies.situation import Situation
from sensecrypt.protocol.protection import MODEL_FRACTION_BITS
from sensecrypt.types import BoolVector

Preset = Literal["default", "paper"]


@dataclass(frozen=True)
class Protection:
    """A policy under a preset, encrypting a share of the model.

    Attributes:
        policy: its name.
        preset: `default` (a secret order, sketches) or `paper` (masks of each client's own, Γ in the clear).
        share: that policies encrypt; of `sensecrypt`, the budget.
        rest: what is not encrypted is `blinded` or `plain`; None: as the preset says, and plain with policy plaintext.
    """

    policy: str
    preset: str
    share: float
    rest: str | None = None

    @property
    def name(self) -> str:
        """As tables call it."""
        return f"{self.policy} ({self.preset})" if self.policy == "sensecrypt" else self.policy

    @property
    def blinded(self) -> bool:
        """Whether nobody but the key server can read what is not encrypted, and it only the sum."""
        told = (
            {} if self.rest is None else {"rest": self.rest, "key_mode": "dkms"}
        )  # where clients have the key, nothing is blinded
        return make_config({"policy": self.policy, "preset": self.preset, **told}).encryption.blinded


@dataclass(frozen=True, eq=False)
class Exposure:
    """What is in sight.

    Attributes:
        hidden: what the client encrypts.
        lonely: what of it nobody else encrypts but one peer, who may collude: subtraction gives it back.
        blinded: whether the rest is blinded; then nothing is lonely, as the others' values are not known either.
        secret_order: whether the aggregator does not know which parameter a plain value belongs to.
        clear_sensitivity: whether Γ is uploaded.
        unplaced: where the order is secret, the client's plain values and its peers' in that order.
    """

    hidden: BoolVector
    lonely: BoolVector
    secret_order: bool
    clear_sensitivity: bool
    blinded: bool = False
    unplaced: Unplaced | None = None

    def to(self, client: SyntheticClient, *, colluding: bool) -> Observation:
        """The observation of an aggregator, alone or with a member of the cluster."""
        if self.blinded or (self.secret_order and not colluding):
            nothing = np.ones_like(self.hidden)
            mask = None if self.secret_order and not colluding else self.hidden
            return client.observe(nothing, clear_sensitivity=self.clear_sensitivity, unplaced=self.unplaced, mask=mask)
        unseen = self.hidden & ~self.lonely if colluding else self.hidden
        return client.observe(unseen, clear_sensitivity=self.clear_sensitivity)


def expose(protection: Protection, peers: Peers, *, rng: np.random.Generator) -> Exposure:
    """Let the policy choose, for the client and for its peers.

    Args:
        protection: the policy.
        peers: the client who is judged, among others.
        rng: for policies that draw.
    """
    policy = get_policy(protection.policy)
    client = peers.client
    gradients = [peers.own]
    if protection.policy == "sensecrypt":
        gradients += peers.alike
    elif policy.propose is not None or policy.ranks_by == "jacobian":
        gradients += peers.others
    secret = protection.preset == "default" and policy.ranks_by is not None
    order = ranking = always = None
    before = client.observation.before
    if policy.ranks_by == "jacobian":
        ranking, _ = descending_order(peers.jacobian)
        order = ranking if secret else None
    elif secret:
        gains = [sensitivity(before, gradient).astype(np.float64) for gradient in gradients]
        order, _ = descending_order(np.mean([each / each.max() for each in gains], axis=0))
    if secret and policy.heeds_always:
        always = always_encrypt(client.observation.build(), client.observation.classes)
        if order is not None:
            order = np.concatenate([order[always[order]], order[~always[order]]])
    situations = [
        _situation(protection, client, gradient, order=order, ranking=ranking, always=always, rng=rng)
        for gradient in gradients
    ]
    agreed = None
    if policy.propose is not None and policy.agree is not None:
        proposals = [policy.propose(situation) for situation in situations]
        agreed = policy.agree(proposals, situations[0].blocks, situations[0].ratio_blocks)
    masks = [policy.choose(replace(situation, agreed=agreed)).mask.to_array() for situation in situations]
    lonely = np.zeros_like(masks[0])
    if len(masks) > 1 and not protection.blinded:
        lonely = masks[0] & ~np.logical_or.reduce(masks[2:])  # the first peer may be the one that colludes
    clear = protection.preset == "paper" and protection.policy == "sensecrypt"
    unplaced = None
    if secret and order is not None and not protection.blinded:
        unplaced = _in_slots(client, gradients[1:], masks, order=order, always=always)
    return Exposure(masks[0], lonely, secret, clear, protection.blinded, unplaced)


def _in_slots(
    client: SyntheticClient,
    peers: Sequence[npt.NDArray[np.float32]],
    masks: Sequence[BoolVector],
    *,
    order: IntVector,
    always: BoolVector | None,
) -> Unplaced:
    """Plain values as uploads carry them: fixed point, all clients with the same weight, in the cluster's order.

    Peers are known by their gradients: after several steps they are somewhere else, and not shown.
    """
    weight, form = 1 / len(masks), FixedPoint(MODEL_FRACTION_BITS[32])
    slots = order[~masks[0][order]]
    seen = client.observation
    one_step = np.array_equal(client.gradient, client.at_before)
    moved = [
        (seen.before - np.float64(client.scale) * gradient).astype(np.float32)
        for gradient, mask in zip(peers, masks[1:], strict=True)
        if one_step and not mask[slots].any()
    ]
    values = np.empty((1 + len(moved), slots.size))
    if slots.size:
        values[:] = [form.decode(form.encode(each[slots], weight), weight) for each in (client.weights, *moved)]
    return Unplaced(
        values=values[0],
        others=values[1:],
        possible=np.ones_like(masks[0]) if always is None or not masks[0][always].all() else ~always,
        step=2.0**-form.frac_bits / weight,
        scale=client.scale,
    )


def _situation(
    protection: Protection,
    client: SyntheticClient,
    gradient: npt.NDArray[np.float32],
    *,
    order: IntVector | None,
    ranking: IntVector | None,
    always: BoolVector | None,
    rng: np.random.Generator,
) -> Situation:
    """One value a ciphertext: the finest masks there are. A step of size 1 stands for any: MaskCrypt's score is g²."""
    before = client.observation.before
    gains: FloatVector = sensitivity(before, gradient).astype(np.float64)
    return Situation(
        weights=before - gradient if protection.policy.startswith("maskcrypt") else before,
        gradient=gradient,
        sensitivity=gains,
        budget=max(protection.share, 1e-9),
        ratio=protection.share,
        block=1,
        order=order,
        ranking=ranking,
        exposed=before,
        always=always,
        rng=rng,
        B=0.0,
        C=1.0,  # no floor: the share is given
        max_mi=None,
        objective="protect",
        on_infeasible="budget",
    )
