"""What a policy leaves visible of a synthetic client, with masks that the policies themselves choose.

A client is attacked among peers. Under SenseCrypt they hold similar data, as in its cluster; under MaskCrypt and
FedML-HE they are all other clients, with their own classes. Policies that decide per client, by a ratio, have no peers.
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
from sensecrypt.rng import derive_rng
from sensecrypt.types import BoolVector

Preset = Literal["default", "paper"]


@dataclass(frozen=True)
class Protection:
    """A policy under a preset, encrypting a share of the model.

    Attributes:
        policy: its name.
        preset: `default` (a secret order, sketches) or `paper` (each client its own mask, Γ in the clear).
        share: that is encrypted; of `sensecrypt`, the budget.
        rest: whether the other values are `blinded` or `plain`; None: as in the preset, and plain for plaintext.
    """

    policy: str
    preset: str
    share: float
    rest: str | None = None

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.policy} ({self.preset})" if self.policy == "sensecrypt" else self.policy

    @property
    def blinded(self) -> bool:
        """Whether values that are not encrypted are blinded, so that only the key server can read their sum."""
        named = {} if self.rest is None else {"rest": self.rest, "key_mode": "dkms"}  # with shared keys none are
        return make_config({"policy": self.policy, "preset": self.preset, **named}).encryption.blinded


@dataclass(frozen=True, eq=False)
class Exposure:
    """What is visible of a client.

    Attributes:
        hidden: what the client encrypts.
        under_covered: the part of it that at most one peer also encrypts, who may collude: subtraction recovers it.
        blinded: whether the rest is blinded; then nothing is under-covered, as the others' values are unknown too.
        secret_order: whether the aggregator does not know which parameter a plain value belongs to.
        clear_sensitivity: whether Γ is uploaded.
        unplaced: where the order is secret, the client's plain values and its peers' in that order.
    """

    hidden: BoolVector
    under_covered: BoolVector
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
        unseen = self.hidden & ~self.under_covered if colluding else self.hidden
        return client.observe(unseen, clear_sensitivity=self.clear_sensitivity)


def expose(protection: Protection, peers: Peers) -> Exposure:
    """Let the policy choose masks for the client and its peers; return what is visible of the client."""
    policy = get_policy(protection.policy)
    client = peers.client
    rng = derive_rng(peers.seed, f"protection {protection.name} {protection.share}")  # for policies that draw
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
    under_covered = np.zeros_like(masks[0])
    if len(masks) > 1 and not protection.blinded:
        under_covered = masks[0] & ~np.logical_or.reduce(masks[2:])  # the first peer may be the colluder
    clear = protection.preset == "paper" and protection.policy == "sensecrypt"
    unplaced = None
    if secret and order is not None and not protection.blinded:
        unplaced = _in_slots(client, gradients[1:], masks, order=order, always=always)
    return Exposure(masks[0], under_covered, secret, clear, protection.blinded, unplaced)


def _in_slots(
    client: SyntheticClient,
    peers: Sequence[npt.NDArray[np.float32]],
    masks: Sequence[BoolVector],
    *,
    order: IntVector,
    always: BoolVector | None,
) -> Unplaced:
    """Plain values as uploads carry them: fixed point, all clients with the same weight, in the cluster's order.

    Only the gradients of peers are known. After several steps their weights are elsewhere, so they are left out.
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
    """The policy's input with one value per ciphertext, the finest masks. Any step size gives MaskCrypt's score g²."""
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
