"""Selects what a client encrypts (paper, "Model Parameter Selection Optimization Problem"), without a solver.

Every block costs one ciphertext, so of all masks of K blocks the K most sensitive blocks protect most. Without a bound
on the mutual information, the optimum over the 2^N masks is therefore one of the N + 1 prefixes of the sensitivity
order. If that prefix breaks the bound, `leakage_constraint` searches the optimum and states a gap. If blocks hold
several parameters, or `order` or `always` is given, only the prefixes are considered.

The objectives, with f₁ = number of blocks and f₂ = their sensitivity:

* `balance` (the paper): minimise β₁·f̄₁ − β₂·f̄₂; ties: the cheapest mask;
* `protect`: maximise f₂; ties: the mask that encrypts most.

f̄ = (f − f^min) / (f^max − f^min). The paper does not say over which masks f^min and f^max are taken. `normalise`:

* `all`: over all masks: f₁ in 0 … N, f₂ in 0 … the total sensitivity;
* `budget`: over the masks within the budget: f₁ in 0 … ⌊αN⌋, f₂ in 0 … what the best of them protects;
* `feasible`: over the masks that meet every constraint. An f with a single value is left out.
"""

from __future__ import annotations

import math
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.leakage import DEFAULT_BINS, bin_weights, check_bound, curve_of_blocks, mutual_information
from sensecrypt.algo.leakage_constraint import Goal
from sensecrypt.algo.mask_search import Chosen, Extremes, LeakageSearch, PrefixSearch
from sensecrypt.algo.ordering import descending_order
from sensecrypt.errors import InfeasibleSelection, InvalidInput
from sensecrypt.types import BoolVector, Decision, Mask, Selection

Objective = Literal["balance", "protect"]
Normalise = Literal["all", "budget", "feasible"]
OnInfeasible = Literal["error", "budget", "security"]


def security_floor(budget: float, *, B: float, C: float) -> float:
    """Return the share of the total sensitivity that a client with budget α must encrypt: 1 − C·e^(−Bα)."""
    alpha = checks.number("budget", budget, low=0.0, high=1.0, open_low=True)
    scale, step = checks.number("C", C, low=0.0, high=1.0), checks.number("B", B, low=0.0)
    return 1.0 - scale * math.exp(-step * alpha)


def select(
    sensitivity: npt.ArrayLike,
    budget: float,
    *,
    B: float,
    C: float,
    max_mi: float | None = None,
    weights: npt.ArrayLike | None = None,
    beta: tuple[float, float] = (1.0, 1.0),
    normalise: Normalise = "all",
    block: int = 1,
    order: npt.ArrayLike | None = None,
    always: npt.ArrayLike | None = None,
    objective: Objective = "balance",
    on_infeasible: OnInfeasible = "error",
    bins: int = DEFAULT_BINS,
) -> Selection:
    """Select the blocks to encrypt within the budget, above the security floor and below the leakage bound.

    Args:
        sensitivity: γ, N non-negative numbers.
        budget: α in (0, 1]: at most ⌊α · number of blocks⌋ blocks are encrypted.
        B: how fast the security floor rises with the budget.
        C: in [0, 1], how far below 1 the floor starts.
        max_mi: η, the bound on the mutual information in bits; needs `weights`.
        weights: N numbers; without `max_mi` they serve only to report the mutual information.
        beta: weights of cost and protection in the objective `balance`.
        normalise: over which masks `balance` scales its objectives: `all`, `budget` or `feasible`.
        block: parameters per ciphertext.
        order: a permutation of the parameters: blocks are cut along it, and only prefixes of it are considered.
        always: one bool per parameter: parameters that must be encrypted regardless of sensitivity; part of the
            security floor. Along an `order`, the shortest prefix that contains all of them.
        objective: `balance` or `protect`.
        on_infeasible: what to do if no mask meets all constraints. `error`: raise. `budget`: encrypt as much as the
            budget allows, and at least `always`. `security`: encrypt the fewest blocks that meet the security floor and
            the leakage bound, and ignore the budget.
        bins: number of bins of the mutual information.

    Raises:
        InfeasibleSelection: no mask meets all constraints, and `on_infeasible` is `error`.
    """
    gains = checks.sensitivity_vector("sensitivity", sensitivity)
    floor = security_floor(budget, B=B, C=C)
    checks.whole("block", block, low=1, high=gains.size)
    slots = None if order is None else checks.permutation("order", order, gains.size)
    beta = (_weight(beta[0]), _weight(beta[1]))
    bound = check_bound(max_mi, weights)
    if weights is not None:
        weights = checks.finite_vector("weights", weights)
        checks.same_length("weights", weights, gains.size, "sensitivity")
    checks.choice("objective", objective, ("balance", "protect"))
    checks.choice("normalise", normalise, ("all", "budget", "feasible"))
    checks.choice("on_infeasible", on_infeasible, ("error", "budget", "security"))

    block_gains = _block_sums(gains if slots is None else gains[slots], block)
    total = block_gains.size
    ranking, ranked_gains = descending_order(block_gains) if slots is None else (np.arange(total), block_gains)
    forced = 0
    if always is not None:
        wanted = _wanted_blocks(always, slots, block, gains.size)
        if slots is None:
            ranking = np.concatenate([ranking[wanted[ranking]], ranking[~wanted[ranking]]])
            ranked_gains = block_gains[ranking]
        forced = int(np.flatnonzero(wanted[ranking]).max(initial=-1)) + 1
    coverage = _running_share(ranked_gains)
    search = PrefixSearch(coverage, floor, forced=forced, every_mask=slots is None and always is None)
    if bound is not None and weights is not None:
        binned, zero = bin_weights(weights, bins=bins)
        if block == 1 and slots is None and always is None:
            search = LeakageSearch(coverage, floor, ranking=ranking, bins=binned, zero=zero, bound=bound)
        else:
            in_slots = binned if slots is None else binned[slots]
            curve = curve_of_blocks(in_slots, zero, ranking, block)
            search = PrefixSearch(coverage, floor, forced=forced, tight=curve <= bound)

    allowed = math.floor(budget * total)
    goal = _goal(search, objective, normalise, beta, allowed, floor)
    chosen = None if goal is None else search.best(goal)
    decided_by: Decision
    if feasible := goal is not None and chosen is not None:
        decided_by = "mi" if chosen.flags is not None else search.decided_by(chosen.count, goal)
    elif on_infeasible == "error":
        raise InfeasibleSelection(
            budget=allowed,
            needed_for_security=search.needed_for_security,
            needed_for_mi=search.needed_for_mi,
            total=total,
        )
    elif on_infeasible == "budget":
        chosen, decided_by = Chosen(max(allowed, forced)), "budget"
    else:
        chosen = search.best(Goal(1.0, 0.0, total, floor)) or Chosen(total)
        decided_by = "security" if chosen.count == search.needed_for_security else "mi"

    flags = chosen.flags
    if flags is None:
        flags = np.zeros(total, dtype=bool)
        flags[ranking[: chosen.count]] = True
    mask = Mask(flags, gains.size, block, slots)
    mi = None
    if weights is not None:
        mi = mutual_information(weights, mask, bins=bins)
        if bound is not None and feasible:
            mi = min(mi, bound)  # long sums round
    return Selection(mask, search.covered(chosen), floor, mi, allowed, decided_by, feasible, chosen.gap)


def _weight(value: float) -> float:
    return checks.number("beta", value, low=0.0, open_low=True)


def _goal(
    search: PrefixSearch,
    objective: Objective,
    normalise: Normalise,
    beta: tuple[float, float],
    allowed: int,
    floor: float,
) -> Goal | None:
    """Return the objective as cost per block and gain of the total sensitivity; None: no mask is feasible."""
    if objective == "protect":
        return Goal(0.0, 1.0, allowed, floor)
    if normalise == "all":
        return Goal(beta[0] / search.total, beta[1], allowed, floor)
    extremes: Extremes | None = (0, allowed), (0.0, float(search.coverage[allowed]))
    if normalise == "feasible":
        extremes = search.extremes(allowed)
    if extremes is None:
        return None
    (fewest, most_blocks), (least, most) = extremes
    cost = beta[0] / (most_blocks - fewest) if most_blocks > fewest else 0.0
    return Goal(cost, beta[1] / (most - least) if most > least else 0.0, allowed, floor)


def _wanted_blocks(always: npt.ArrayLike, slots: checks.IntVector | None, block: int, size: int) -> BoolVector:
    """Return which blocks contain a parameter that must be encrypted."""
    flags = np.asarray(always)
    if flags.dtype != np.bool_ or flags.shape != (size,):
        raise InvalidInput("always", f"has shape {flags.shape} and dtype {flags.dtype}", "pass one bool per parameter")
    in_slots = flags if slots is None else flags[slots]
    return cast(BoolVector, np.logical_or.reduceat(in_slots, np.arange(0, size, block)))


def _block_sums(values: checks.FloatVector, block: int) -> checks.FloatVector:
    """Return the sum of each run of `block` values, relative to the largest value to avoid overflow."""
    scaled = values / values.max()
    return scaled if block == 1 else np.add.reduceat(scaled, np.arange(0, scaled.size, block))


def _running_share(gains: checks.FloatVector) -> checks.FloatVector:
    """Return the share of the total in the first K gains, for K = 0 … N: exactly 0 at K = 0 and exactly 1 at K = N."""
    share = np.empty(gains.size + 1)
    share[0] = 0.0
    np.cumsum(gains, out=share[1:])
    share /= share[-1]
    return share
