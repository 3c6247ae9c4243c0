"""What a client encrypts (paper, "Model Parameter Selection Optimization Problem"), exactly and without a solver.

Every block costs one ciphertext, so among all masks of K blocks the K most sensitive ones protect most, and the
optimum over the 2^N masks is one of the N + 1 prefixes of the sensitivity order. Along these prefixes cost, coverage
and mutual information are three curves; the answer is read off them.

The paper's objectives are scaled to [0, 1] over all masks (f̄₁ = K/N, f̄₂ = coverage):

* `balance` (the paper): minimise β₁·f̄₁ − β₂·f̄₂; of equals, the cheapest;
* `protect`: maximise f̄₂; of equals, the one that encrypts most.

The mutual information is not monotone in K and is constrained on the sensitivity-ordered masks only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.leakage import DEFAULT_BINS, bin_weights, check_bound, curve_of_bins, mutual_information
from sensecrypt.algo.ordering import descending_order
from sensecrypt.errors import InfeasibleSelection, InvalidInput
from sensecrypt.types import BoolVector, Decision, Mask, Selection

Objective = Literal["balance", "protect"]
OnInfeasible = Literal["error", "budget", "security"]
Normalise = Literal["all", "budget", "feasible"]


def security_floor(budget: float, *, B: float, C: float) -> float:
    """The share of the total sensitivity that a client with this budget must encrypt: 1 − C·e^(−Bα)."""
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
    block: int = 1,
    order: npt.ArrayLike | None = None,
    always: npt.ArrayLike | None = None,
    objective: Objective = "balance",
    on_infeasible: OnInfeasible = "error",
    bins: int = DEFAULT_BINS,
    normalise: Normalise = "all",
) -> Selection:
    """Choose the blocks to encrypt within the budget, above the security floor and below the leakage bound.

    Args:
        sensitivity: γ, N non-negative numbers.
        budget: α in (0, 1]: at most ⌊α · number of blocks⌋ blocks are encrypted.
        B: how fast the security floor rises with the budget.
        C: in [0, 1], how far below 1 the floor starts.
        max_mi: η, the bound on the mutual information in bits; needs `weights`.
        weights: N numbers; without `max_mi` they only make the result report the mutual information.
        beta: weights of cost and protection in the objective `balance`.
        block: parameters a ciphertext.
        order: a permutation of the parameters: blocks are cut along it, and only prefixes of it are considered.
        always: one bool a parameter: what must be encrypted whatever its sensitivity; part of the security floor. Along
            an `order`, the shortest prefix that holds all of it.
        objective: `balance` or `protect`.
        on_infeasible: `error`; `budget`, all that the budget allows, and `always`; or `security`, the fewest blocks
            that meet the security floor and the leakage bound, whatever the budget.
        bins: of the mutual information.
        normalise: over which masks the two objectives of `balance` are scaled to [0, 1].

    Raises:
        InfeasibleSelection: no number of blocks meets all constraints, and `on_infeasible` is `error`.
    """
    gains = checks.sensitivity_vector("sensitivity", sensitivity)
    floor = security_floor(budget, B=B, C=C)
    checks.whole("block", block, low=1, high=gains.size)
    slots = None if order is None else checks.permutation("order", order, gains.size)
    cost_weight, gain_weight = (checks.number("beta", each, low=0.0, open_low=True) for each in beta)
    bound = check_bound(max_mi, weights)
    if weights is not None:
        weights = checks.finite_vector("weights", weights)
        checks.same_length("weights", weights, gains.size, "sensitivity")
    checks.choice("objective", objective, ("balance", "protect"))
    checks.choice("on_infeasible", on_infeasible, ("error", "budget", "security"))
    checks.choice("normalise", normalise, ("all", "budget", "feasible"))

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
    allowed = math.floor(budget * total)
    constraints = {"budget": _up_to(allowed, total), "security": coverage >= floor}
    constraints["security"][:forced] = False
    curve = None
    if bound is not None and weights is not None:
        parameters, ends = _parameters_in_order(ranking, slots, block, gains.size)
        binned, zero = bin_weights(weights, bins=bins)
        curve = curve_of_bins(binned[parameters], zero)[ends]
        constraints["mi"] = curve <= bound

    score = None
    if objective == "balance":
        score = np.linspace(0.0, cost_weight, total + 1)
        score -= gain_weight * coverage
    chosen = _best(constraints, score)
    decided_by: Decision
    if feasible := chosen is not None:
        decided_by = _decided_by(chosen, constraints, score)
    else:
        needed = {name: int(holds.argmax()) for name, holds in constraints.items() if name != "budget"}
        if on_infeasible == "error":
            raise InfeasibleSelection(
                budget=allowed, needed_for_security=needed["security"], needed_for_mi=needed.get("mi"), total=total
            )
        if on_infeasible == "budget":
            chosen, decided_by = max(allowed, forced), "budget"
        else:
            chosen = int(_all(constraints, without="budget").argmax())
            decided_by = "mi" if needed.get("mi", 0) > needed["security"] else "security"

    flags = np.zeros(total, dtype=bool)
    flags[ranking[:chosen]] = True
    mask = Mask(flags, gains.size, block, slots)
    mi = None
    if curve is not None:
        mi = float(curve[chosen])
    elif weights is not None:
        mi = mutual_information(weights, mask, bins=bins)
    return Selection(mask, float(coverage[chosen]), floor, mi, allowed, decided_by, feasible)


def _wanted_blocks(always: npt.ArrayLike, slots: checks.IntVector | None, block: int, size: int) -> BoolVector:
    """Which blocks hold a parameter that must be encrypted."""
    flags = np.asarray(always)
    if flags.dtype != np.bool_ or flags.shape != (size,):
        raise InvalidInput("always", f"has shape {flags.shape} and dtype {flags.dtype}", "pass one bool a parameter")
    in_slots = flags if slots is None else flags[slots]
    return cast(BoolVector, np.logical_or.reduceat(in_slots, np.arange(0, size, block)))


def _block_sums(values: checks.FloatVector, block: int) -> checks.FloatVector:
    """Sum of each run of `block` values, relative to the largest value so that nothing overflows."""
    scaled = values / values.max()
    return scaled if block == 1 else np.add.reduceat(scaled, np.arange(0, scaled.size, block))


def _running_share(gains: checks.FloatVector) -> checks.FloatVector:
    """Share of the total in the first K gains, for K = 0 … N: exactly 0 at first and exactly 1 at last."""
    share = np.empty(gains.size + 1)
    share[0] = 0.0
    np.cumsum(gains, out=share[1:])
    share /= share[-1]
    return share


def _parameters_in_order(
    ranking: checks.IntVector, slots: checks.IntVector | None, block: int, size: int
) -> tuple[checks.IntVector, checks.IntVector]:
    """The parameters as they are encrypted block after block, and how many are encrypted after K = 0 … N blocks."""
    in_slots = ranking
    if block > 1:
        in_slots = (ranking[:, None] * block + np.arange(block)).ravel()
        in_slots = in_slots[in_slots < size]
    ends = np.arange(ranking.size + 1) * block
    ends[np.flatnonzero(ranking == ranking.size - 1)[0] + 1 :] -= ranking.size * block - size  # the short last block
    return in_slots if slots is None else slots[in_slots], ends


def _up_to(last: int, total: int) -> BoolVector:
    """True for the counts 0 … last of 0 … total."""
    allowed = np.zeros(total + 1, dtype=bool)
    allowed[: last + 1] = True
    return allowed


def _all(constraints: Mapping[str, BoolVector], *, without: str | None = None) -> BoolVector:
    """Where every constraint holds, one of them left out."""
    return cast(BoolVector, np.logical_and.reduce([holds for name, holds in constraints.items() if name != without]))


def _best(
    constraints: Mapping[str, BoolVector], score: checks.FloatVector | None, *, without: str | None = None
) -> int | None:
    """The feasible number of blocks with the lowest score, or without a score the largest feasible one."""
    feasible = _all(constraints, without=without)
    if not feasible.any():
        return None
    if score is None:
        return feasible.size - 1 - int(feasible[::-1].argmax())
    return int(np.where(feasible, score, np.inf).argmin())


def _decided_by(chosen: int, constraints: Mapping[str, BoolVector], score: checks.FloatVector | None) -> Decision:
    """The constraint without which the answer would be another; "objective" if it is the unconstrained optimum."""
    free = constraints["budget"].size - 1 if score is None else int(score.argmin())
    if free == chosen:
        return "objective"
    for name in constraints:
        if _best(constraints, score, without=name) != chosen:
            return cast(Decision, name)
    # Two constraints ask for the very same count: name the first that the unconstrained optimum breaks.
    return cast(Decision, next(name for name, holds in constraints.items() if not holds[free]))
