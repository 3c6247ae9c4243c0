"""The selection is exact: against every mask, every prefix, and an integer programming solver."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from sensecrypt import InfeasibleSelection, InvalidInput, Mask, mutual_information, select
from sensecrypt.algo.selection import security_floor

whole_gains = st.lists(st.integers(0, 20), min_size=1, max_size=12).filter(any)  # small integers: many ties
real_gains = st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(any)
budgets = st.floats(0.05, 1)
steps, scales = st.floats(0, 3), st.floats(0.05, 1)
weights_of_objective = st.tuples(st.floats(0.1, 3), st.floats(0.1, 3))


def objective_value(mask: Mask, gains: np.ndarray, beta: tuple[float, float]) -> float:
    return beta[0] * mask.blocks / mask.flags.size - beta[1] * mask.coverage(gains)


@given(st.one_of(whole_gains, real_gains), budgets, steps, scales, weights_of_objective, st.integers(1, 4))
def test_no_mask_of_all_is_better(values, budget, B, C, beta, block):
    gains = np.array(values, dtype=float)
    block = min(block, gains.size)
    block_gains = np.array([gains[start : start + block].sum() for start in range(0, gains.size, block)])
    total = block_gains.size
    every_mask = np.arange(2**total)[:, None] >> np.arange(total) & 1
    blocks, coverage = every_mask.sum(axis=1), every_mask @ block_gains / gains.sum()
    floor = security_floor(budget, B=B, C=C)
    assume(abs(coverage - floor).min() > 1e-12)  # within rounding of the floor a mask may fall on either side
    feasible = (blocks <= math.floor(budget * total)) & (coverage >= floor)
    value = beta[0] * blocks / total - beta[1] * coverage
    for objective in ("balance", "protect"):
        arguments = {"B": B, "C": C, "beta": beta, "block": block, "objective": objective}
        if not feasible.any():
            with pytest.raises(InfeasibleSelection) as error:
                select(gains, budget, **arguments)
            assert error.value.budget < error.value.needed_for_security
            continue
        found = select(gains, budget, **arguments)
        assert found.feasible
        assert found.blocks <= math.floor(budget * total)
        assert found.coverage == pytest.approx(found.mask.coverage(gains))
        assert found.coverage >= floor
        if objective == "balance":
            assert objective_value(found.mask, gains, beta) == pytest.approx(value[feasible].min(), abs=1e-9)
        else:
            assert found.coverage == pytest.approx(coverage[feasible].max())


@pytest.mark.parametrize("block", [1, 3])
@pytest.mark.parametrize("seed", range(40))
def test_a_leakage_bound_of_0_takes_everything(seed, block):
    """Whatever the sums of logarithms round to: no bound is broken once everything is encrypted, and 0 is before."""
    rng = np.random.default_rng(seed)
    weights, order = rng.normal(size=26), rng.permutation(26)
    arguments = {"B": 0.0, "C": 1.0, "max_mi": 0.0, "weights": weights, "block": block, "order": order}
    found = select(np.ones(26), 1.0, **arguments)
    assert mutual_information(weights, found.mask) < 1e-9
    with pytest.raises(InfeasibleSelection):
        select(np.ones(26), 0.5, **arguments)


@given(st.data(), st.integers(1, 30), budgets, steps, scales, st.floats(0, 2.5), st.integers(1, 5), st.booleans())
def test_no_ordered_mask_is_better_under_all_three_constraints(data, size, budget, B, C, max_mi, block, ordered):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    weights, gains = rng.normal(size=size), rng.integers(0, 6, size).astype(float)
    assume(gains.any())
    block = min(block, size)
    assume(ordered or block > 1)  # else all masks compete: tests/algo/test_selection_all_masks.py
    order = rng.permutation(size) if ordered else None
    floor = security_floor(budget, B=B, C=C)
    total = -(-size // block)
    slots = gains if order is None else gains[order]
    block_gains = np.array([slots[b * block : (b + 1) * block].sum() for b in range(total)])
    ranking = np.arange(total) if ordered else np.argsort(-block_gains, kind="stable")
    candidates = []
    for k in range(math.floor(budget * total) + 1):
        flags = np.zeros(total, dtype=bool)
        flags[ranking[:k]] = True
        mask = Mask(flags, size, block, order)
        mi = mutual_information(weights, mask)
        assume(abs(mi - max_mi) > 1e-9)
        if mask.coverage(gains) >= floor and mi <= max_mi:
            candidates.append(mask)
    for objective in ("balance", "protect"):
        arguments = {
            "B": B,
            "C": C,
            "max_mi": max_mi,
            "weights": weights,
            "block": block,
            "order": order,
            "objective": objective,
        }
        if not candidates:
            with pytest.raises(InfeasibleSelection):
                select(gains, budget, **arguments)
            continue
        found = select(gains, budget, **arguments)
        assert found.mi == pytest.approx(mutual_information(weights, found.mask), abs=1e-9)
        if objective == "balance":
            best = min(objective_value(mask, gains, (1, 1)) for mask in candidates)
            assert objective_value(found.mask, gains, (1, 1)) == pytest.approx(best, abs=1e-9)
            assert found.mask in candidates
        else:
            assert found.mask == candidates[-1]


@pytest.mark.parametrize(
    ("seed", "block", "budget", "C"),
    [(0, 1, 0.7, 0.5), (1, 1, 0.3, 0.5), (2, 4, 0.4, 0.9), (3, 1, 0.05, 0.9), (4, 4, 0.9, 0.05)],
)
def test_highs_finds_nothing_better_among_2000_blocks(seed, block, budget, C):
    gains = np.random.default_rng(seed).lognormal(-3, 2, 2000 * block)
    found = select(gains, budget, B=2.0, C=C, block=block)
    share = gains.reshape(2000, block).sum(axis=1) / gains.sum()
    solved = milp(
        1 - 2000 * share,
        constraints=[
            LinearConstraint(np.ones(2000), ub=math.floor(budget * 2000)),
            LinearConstraint(share, lb=found.security_floor),
        ],
        integrality=np.ones(2000),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 1e-9, "time_limit": 60},
    )
    ours = found.blocks - 2000 * found.coverage
    # A proof whether or not the solver finished: nothing it found is better, and nothing can be by more than its gap.
    assert ours <= solved.fun + 1e-6
    assert ours >= solved.mip_dual_bound - 1e-6
    if solved.status == 0:
        assert ours == pytest.approx(solved.fun, abs=1e-6)
    assert solved.mip_gap < 1e-3


@pytest.mark.parametrize(("B", "C", "level"), [(1.5, 0.3, 0.7418), (2, 0.5, 0.5906), (1.3, 0.7, 0.3853)])
def test_the_papers_security_levels_at_a_tenth(B, C, level):
    assert security_floor(0.1, B=B, C=C) == pytest.approx(level, abs=5e-5)
    assert select(np.ones(1000), 1.0, B=B, C=C).security_floor == 1 - C * math.exp(-B)


def test_balance_takes_what_is_above_average_and_says_so():
    found = select([5.0, 1.0, 1.0, 3.0, 0.0], 1.0, B=0, C=1)
    assert np.flatnonzero(found.mask.to_array()).tolist() == [0, 3]
    assert found.decided_by == "objective"


def test_equal_sensitivities_are_taken_by_index():
    found = select([1.0, 2.0, 2.0, 2.0], 0.5, B=0, C=1, objective="protect")
    assert np.flatnonzero(found.mask.to_array()).tolist() == [1, 2]


def test_each_constraint_can_decide():
    gains = np.array([8.0, 4.0, 2.0, 1.0])
    weights = np.array([0.9, -0.9, 0.5, -0.5])
    assert select(gains, 0.25, B=0, C=1).decided_by == "budget"
    assert select(gains, 1.0, B=9, C=0.01).decided_by == "security"
    assert select(gains, 1.0, B=0, C=1, weights=weights, max_mi=0.1).decided_by == "mi"
    assert select(gains, 1.0, B=0, C=1, objective="protect").decided_by == "objective"
    assert select(gains, 0.5, B=0, C=1, objective="protect").decided_by == "budget"


def test_two_constraints_that_ask_for_the_same_are_told_by_the_first():
    gains, weights = np.array([8.0, 4.0]), np.array([0.9, -0.9])
    found = select(gains, 1.0, B=9, C=1e-9, weights=weights, max_mi=0.0)
    assert (found.blocks, found.decided_by) == (2, "security")


class TestInfeasible:
    gains = np.array([4.0, 3.0, 2.0, 1.0])
    weights = np.array([0.9, -0.9, 0.5, -0.5])

    def test_error_carries_the_numbers(self):
        with pytest.raises(InfeasibleSelection) as error:
            select(self.gains, 0.25, B=0, C=0.2, weights=self.weights, max_mi=0.0)
        told = error.value
        assert (told.budget, told.needed_for_security, told.needed_for_mi, told.total) == (1, 3, 4, 4)
        assert "the budget allows 1 of 4" in str(told)
        with pytest.raises(InfeasibleSelection) as error:
            select(self.gains, 0.25, B=0, C=0.2)
        assert error.value.needed_for_mi is None

    def test_budget_protects_as_much_as_is_allowed(self):
        found = select(self.gains, 0.5, B=0, C=0.2, on_infeasible="budget")
        assert (found.blocks, found.feasible, found.decided_by, found.overrun) == (2, False, "budget", 0)

    def test_security_protects_anyway_and_reports_the_overrun(self):
        found = select(self.gains, 0.25, B=0, C=0.2, on_infeasible="security")
        assert (found.blocks, found.feasible, found.decided_by, found.overrun) == (3, False, "security", 2)
        found = select(self.gains, 0.25, B=0, C=0.2, on_infeasible="security", weights=self.weights, max_mi=0.0)
        assert (found.blocks, found.decided_by, found.overrun) == (4, "mi", 3)

    def test_a_budget_below_one_block_selects_nothing(self):
        found = select(self.gains, 0.1, B=0, C=0.2, on_infeasible="budget")
        assert (found.blocks, found.coverage) == (0, 0.0)


def test_mutual_information_is_reported_whenever_there_are_weights():
    gains, weights = np.array([4.0, 3.0, 2.0]), np.array([1.0, -1.0, 0.5])
    assert select(gains, 1.0, B=0, C=1).mi is None
    found = select(gains, 1.0, B=0, C=1, weights=weights)
    assert found.mi == mutual_information(weights, found.mask)


def test_huge_and_tiny_sensitivities_do_not_overflow():
    assert select(np.full(4, 1.7e308), 1.0, B=0, C=0.5, objective="protect").coverage == 1.0
    assert select(np.full(4, 5e-324), 0.5, B=0, C=0.5, objective="protect").coverage == 0.5


good = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"sensitivity": [1.0, np.nan, 2.0]}, "sensitivity"),
        ({"sensitivity": [1.0, np.inf, 2.0]}, "sensitivity"),
        ({"sensitivity": [0.0, 0.0]}, "sensitivity"),
        ({"sensitivity": [1.0, -1.0]}, "sensitivity"),
        ({"sensitivity": []}, "sensitivity"),
        ({"sensitivity": ["x"]}, "sensitivity"),
        ({"budget": 0.0}, "budget"),
        ({"budget": -0.5}, "budget"),
        ({"budget": 1.01}, "budget"),
        ({"budget": math.nan}, "budget"),
        ({"budget": "much"}, "budget"),
        ({"B": -1.0}, "B"),
        ({"C": 1.5}, "C"),
        ({"block": 4}, "block"),
        ({"block": 0}, "block"),
        ({"block": 1.5}, "block"),
        ({"order": [0, 1]}, "order"),
        ({"order": [0, 1, 1]}, "order"),
        ({"order": [0, 1, 3]}, "order"),
        ({"order": [0.0, 1.0, 2.0]}, "order"),
        ({"max_mi": 1.0}, "weights"),
        ({"max_mi": -1.0, "weights": good}, "max_mi"),
        ({"max_mi": 1.0, "weights": good[:2]}, "weights"),
        ({"max_mi": 1.0, "weights": [1.0, np.nan, 2.0]}, "weights"),
        ({"beta": (0.0, 1.0)}, "beta"),
        ({"objective": "fastest"}, "objective"),
        ({"on_infeasible": "ignore"}, "on_infeasible"),
    ],
)
def test_bad_input_is_named_with_what_to_do(changes, argument):
    arguments = {"sensitivity": good, "budget": 0.5, "B": 1.0, "C": 0.5, **changes}
    with pytest.raises(InvalidInput) as error:
        select(arguments.pop("sensitivity"), arguments.pop("budget"), **arguments)
    assert error.value.argument == argument
    assert error.value.fix


class TestAlways:
    @given(
        seed=st.integers(0, 10_000),
        block=st.integers(1, 5),
        ordered=st.booleans(),
        objective=st.sampled_from(["balance", "protect"]),
        budget=st.floats(0.05, 1.0),
    )
    def test_what_must_be_encrypted_is_and_the_rest_is_the_best_of_all_masks_that_do(
        self, seed, block, ordered, objective, budget
    ):
        rng = np.random.default_rng(seed)
        gains = rng.lognormal(0, 2, 30)
        always = rng.random(30) < 0.15
        order = rng.permutation(30) if ordered else None
        found = select(
            gains,
            budget,
            B=1.0,
            C=0.5,
            block=block,
            order=order,
            always=always,
            objective=objective,
            on_infeasible="security",
        )
        assert found.mask.to_array()[always].all()
        assert found.coverage >= found.security_floor - 1e-12
        total = found.mask.flags.size
        in_slots = always if order is None else always[order]
        wanted = np.logical_or.reduceat(in_slots, np.arange(0, 30, block))
        if order is None and found.feasible and total <= 12:
            shares = np.add.reduceat(gains, np.arange(0, 30, block)) / gains.sum()
            values = []
            for bits in range(2**total):
                flags = np.array([bits >> k & 1 for k in range(total)], dtype=bool)
                if (wanted & ~flags).any() or flags.sum() > math.floor(budget * total):
                    continue
                if shares[flags].sum() >= found.security_floor - 1e-12:
                    cost = 0.0 if objective == "protect" else flags.sum() / total
                    values.append(cost - shares[flags].sum())
            cost = 0.0 if objective == "protect" else found.blocks / total
            assert cost - found.coverage == pytest.approx(min(values), abs=1e-9)

    def test_a_budget_below_it_is_infeasible_and_says_so(self):
        gains, always = np.arange(1.0, 11.0), np.arange(10) < 6
        with pytest.raises(InfeasibleSelection):
            select(gains, 0.3, B=1.0, C=1.0, always=always)
        kept = select(gains, 0.3, B=1.0, C=1.0, always=always, on_infeasible="budget")
        assert kept.mask.to_array().tolist() == always.tolist()
        assert not kept.feasible

    def test_nothing_to_force_changes_nothing(self):
        gains = np.random.default_rng(0).lognormal(0, 1, 100)
        free = select(gains, 0.5, B=1.0, C=0.5, block=3)
        assert select(gains, 0.5, B=1.0, C=0.5, block=3, always=np.zeros(100, dtype=bool)).mask == free.mask

    @pytest.mark.parametrize("always", [np.zeros(99, dtype=bool), np.zeros(100), [1, 2]])
    def test_anything_but_one_bool_a_parameter_is_refused(self, always):
        with pytest.raises(InvalidInput, match="one bool per parameter"):
            select(np.ones(100), 0.5, B=1.0, C=0.5, always=always)
