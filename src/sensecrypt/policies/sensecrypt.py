"""The paper's method: encrypts within the device's budget, above the security floor and below the leakage bound."""

from __future__ import annotations

from sensecrypt.algo.selection import select
from sensecrypt.policies.policy import Policy
from sensecrypt.policies.situation import Choice, Situation, asked_for


def choose(situation: Situation) -> Choice:
    """Encrypt what `select` returns for this client's budget."""
    found = select(
        asked_for("sensitivity", situation.sensitivity),
        situation.budget,
        B=situation.B,
        C=situation.C,
        max_mi=situation.max_mi,
        weights=situation.weights if situation.max_mi is not None else None,
        block=situation.block,
        order=situation.order,
        always=situation.always,
        objective=situation.objective,
        on_infeasible=situation.on_infeasible,
        bins=situation.bins,
        beta=situation.beta,
        normalise=situation.normalise,
    )
    return Choice(found.mask, found.mi, found.decided_by, found.feasible)


POLICY = Policy(choose, needs_gradient=True, uses_budget=True, heeds_always=True, ranks_by="sensitivity", clusters=True)
