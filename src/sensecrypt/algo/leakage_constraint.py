"""The best mask under a bound on the mutual information (paper, the MI constraint of the selection problem).

The mutual information depends only on how many weights of each bin are encrypted. With h(t) = t·log2 t, k_x encrypted
weights in bin x, z the bin of zero and M = n_z + Σ_{x≠z} k_x, the bound I ≤ η becomes

    Σ_{x≠z} h(k_x) − h(M) ≤ allowance,        where `allowance` depends only on the weights and η.

Within a bin, the most sensitive weights are encrypted first. For a given number K of encrypted weights outside bin z,
the left side is separable and convex, and the protected sensitivity is separable and concave. So each multiplier μ ≥ 0
gives, for every K, a mask that protects most at its own leakage: the first K weights in descending order of

    γ − μ·(h(r + 1) − h(r)),        where r is the rank of the weight within its bin.

Each μ also bounds what *any* mask within the leakage bound can protect; `gap` is the distance to that bound. Small
problems are solved by enumeration of all (k_x), with gap 0. Weights of bin z look encrypted in any case: they cost as
much as others, protect their own sensitivity and do not change the leakage.

Encrypting more never leaks more: h is convex and M ≥ k_x, so each step lowers the left side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sensecrypt import checks
from sensecrypt.algo.leakage import BinVector, leakage_allowance, xlog2x
from sensecrypt.types import BoolVector

ENUMERATED = 1 << 15  # up to this many count vectors are enumerated
_COARSE = 2048  # groups of weights in the first search of the multiplier
_GRID = np.logspace(-8, 1, 13)  # multipliers of the first search, relative to the largest sensitivity
_SECTIONS = 8  # golden sections of the search between two of these multipliers
_AFTER = 256  # masks of a chain that are examined, starting with the first that keeps the leakage bound
_REFINEMENTS = 12  # at most so many refinements of the multiplier on the whole problem if no mask is found


@dataclass(frozen=True)
class Goal:
    """The objective to minimise, cost·K − gain·coverage, and its limits.

    Attributes:
        cost: the cost of encrypting one parameter; 0: of equal masks, the one that encrypts most is best.
        gain: the gain of covering the whole sensitivity.
        most: the largest number of encrypted parameters.
        floor: the smallest coverage.
    """

    cost: float
    gain: float
    most: int
    floor: float


@dataclass(frozen=True, eq=False)
class Answer:
    """A mask and its distance from the optimum.

    Attributes:
        flags: one bool per parameter.
        gap: an upper bound on how much lower the objective of another feasible mask can be.
    """

    flags: BoolVector
    gap: float


class LeakageProblem:
    """Parameters with sensitivities, bins and a bound on the mutual information."""

    def __init__(
        self, order: checks.IntVector, gains: checks.FloatVector, counts: checks.IntVector, zero: int, bound: float
    ) -> None:
        """Store parameters that are sorted by bin.

        Args:
            order: the parameters, bin by bin, within a bin by descending gain.
            gains: the gain of encrypting each parameter, in that order.
            counts: number of parameters in each bin.
            zero: the bin of zero.
            bound: η in bits.
        """
        self._order, self._gains, self._counts, self._zero, self._bound = order, gains, counts, zero, bound
        self._size, self._ends = order.size, np.cumsum(counts)
        self._entropies = xlog2x(np.arange(self._size + 1))
        self._steps = np.diff(self._entropies[: counts.max() + 1])
        self._allowance = leakage_allowance(counts, zero, bound)
        zeros = self._part(zero)
        self._zero_gains = gains[zeros]
        self._zero_coverage = running(self._zero_gains)
        others = np.concatenate([gains[: zeros.start], gains[zeros.stop :]])
        self._most_covered = running(-np.sort(-others, kind="stable"))

    @classmethod
    def of_ranking(
        cls, ranking: checks.IntVector, shares: checks.FloatVector, bins: BinVector, zero: int, bound: float
    ) -> LeakageProblem:
        """Return the problem for parameters in descending order of sensitivity.

        Args:
            ranking: the parameters, most sensitive first.
            shares: their shares of the total sensitivity, in that order.
            bins: the bin of each parameter, by parameter.
            zero: the bin of zero.
            bound: η in bits.
        """
        in_bin = bins[ranking]
        by_bin = np.argsort(in_bin, kind="stable")
        return cls(ranking[by_bin], shares[by_bin], np.bincount(in_bin, minlength=zero + 1), zero, bound)

    def _part(self, which: int) -> slice:
        """Return the slice of a bin's parameters."""
        return slice(int(self._ends[which] - self._counts[which]), int(self._ends[which]))

    def solve(self, goal: Goal) -> Answer | None:
        """Return the best mask within the goal's limits and the leakage bound; None: there is none.

        Beyond `ENUMERATED` count vectors, None can also mean that the search missed a mask. This happens only if the
        constraints leave less room than the sensitivity of single parameters.
        """
        if math.prod(int(count) + 1 for count in self._counts) <= ENUMERATED:
            return self._enumerate(goal)
        scale = float(np.abs(self._gains).max())
        coarse = _Chains(self, group=max(1, self._size // _COARSE))
        place = min(range(_GRID.size), key=lambda each: coarse.at(scale * float(_GRID[each]), goal).rank)
        low, high = (math.log(_GRID[min(max(place + step, 0), _GRID.size - 1)]) for step in (-1, 1))
        exponent = _golden(lambda log: coarse.at(scale * math.exp(log), goal).rank, low, high, steps=_SECTIONS)
        whole = _Chains(self, group=1, least=coarse.least)
        best = whole.at(scale * math.exp(exponent), goal, bounded=True)
        bound, step = best.bound, 0.05
        for _ in range(_REFINEMENTS):
            if best.value < math.inf or bound == math.inf:
                break
            near = [whole.at(scale * math.exp(exponent + sign * step), goal, bounded=True) for sign in (-1, 1)]
            bound = max(bound, *(each.bound for each in near))
            sign, nearest = min(zip((-1, 1), near, strict=True), key=lambda pair: pair[1].rank)
            if nearest.rank < best.rank:
                best, exponent = nearest, exponent + sign * step
            else:
                step /= 4
        if best.value == math.inf:
            return None
        counts = whole.counts(best.multiplier, best.hidden)
        return Answer(self._flags(counts, best.zeros), max(0.0, best.value - bound))

    def least_coverage(self, floor: float, most: int) -> float:
        """Return the smallest coverage of a mask within all constraints.

        Up to 14 parameters, every mask is tried. Beyond, it is the floor itself, unless the leakage bound demands more:
        there are then so many masks that the coverage of one is within a parameter's sensitivity of the floor.
        """
        if self._size <= 14:
            return self._least_of_all(floor, most)
        counts = _Chains(self, group=1).fewest()
        least_first = self._reversed()
        if counts.sum() <= most and least_first.coverage_of(counts) <= floor:
            return floor
        found = least_first.solve(Goal(cost=0.0, gain=1.0, most=most, floor=-math.inf))
        return floor if found is None else max(floor, float(-least_first.by_parameter()[found.flags].sum()))

    def coverage_of(self, counts: checks.IntVector) -> float:
        """Return the absolute coverage of the first `counts[x]` parameters of every bin x."""
        parts = (self._gains[self._part(each)][:number] for each, number in enumerate(counts))
        return float(sum(abs(part.sum()) for part in parts))

    def by_parameter(self) -> checks.FloatVector:
        """Return the gain of each parameter."""
        gains = np.empty(self._size)
        gains[self._order] = self._gains
        return gains

    def _reversed(self) -> LeakageProblem:
        """Return the problem with negated gains: the mask that protects least becomes the best."""
        places = np.concatenate([np.arange(self._size)[self._part(each)][::-1] for each in range(self._counts.size)])
        return LeakageProblem(self._order[places], -self._gains[places], self._counts, self._zero, self._bound)

    def _enumerate(self, goal: Goal) -> Answer | None:
        """Return the best mask over all count vectors (k_x)."""
        used = [each for each in np.flatnonzero(self._counts).tolist() if each != self._zero]
        grids = np.meshgrid(*(np.arange(self._counts[each] + 1) for each in used), indexing="ij")
        counts = np.zeros((grids[0].size if grids else 1, self._counts.size), dtype=np.int64)
        covered, left = np.zeros(len(counts)), np.zeros(len(counts))
        for each, grid in zip(used, grids, strict=True):
            counts[:, each] = grid.ravel()
            covered += running(self._gains[self._part(each)])[counts[:, each]]
            left += xlog2x(counts[:, each])
        hidden = counts.sum(axis=1)
        holds = left - xlog2x(self._counts[self._zero] + hidden) <= self._allowance
        values, zeros = self.respond(goal, hidden, covered)
        values[~holds] = math.inf
        if not (values < math.inf).any():
            return None
        best = _first_best(values, hidden + zeros, last=goal.cost == 0)
        return Answer(self._flags(counts[best], int(zeros[best])), 0.0)

    def _least_of_all(self, floor: float, most: int) -> float:
        every = (np.arange(1 << self._size)[:, None] >> np.arange(self._size) & 1).astype(bool)
        hidden, left, total = np.zeros(len(every), dtype=np.int64), np.zeros(len(every)), every.sum(axis=1)
        for each in range(self._counts.size):
            if each != self._zero:
                inside = every[:, self._part(each)].sum(axis=1)
                left += xlog2x(inside)
                hidden += inside
        coverage = every @ self._gains
        holds = left - xlog2x(self._counts[self._zero] + hidden) <= self._allowance
        holds &= (total <= most) & (coverage >= floor)
        return float(coverage[holds].min(initial=math.inf))

    def respond(
        self, goal: Goal, hidden: checks.IntVector, covered: checks.FloatVector
    ) -> tuple[checks.FloatVector, checks.IntVector]:
        """Return objectives and numbers of weights of bin z, best for `hidden` other weights of coverage `covered`.

        Returns:
            The objectives, infinite if the limits cannot be kept; and the numbers of weights of bin z.
        """
        wanted = self._zero_gains.size
        if goal.cost > 0:
            wanted = int(np.count_nonzero(goal.gain * self._zero_gains > goal.cost))
        needed = np.zeros(covered.size, dtype=np.int64)
        short = np.flatnonzero(covered < goal.floor)
        needed[short] = np.searchsorted(self._zero_coverage, goal.floor - covered[short])
        possible = np.minimum(goal.most - hidden, self._zero_gains.size)
        zeros = np.minimum(np.maximum(needed, wanted), possible)
        coverage = covered + self._zero_coverage[np.maximum(zeros, 0)]
        values = goal.cost * (hidden + zeros) - goal.gain * coverage
        values[(possible < 0) | (coverage < goal.floor)] = math.inf
        return values, zeros

    def _flags(self, counts: checks.IntVector, zeros: int) -> BoolVector:
        """Return the mask of the first `counts[x]` parameters of every bin x, and of the first `zeros` of bin z."""
        taken = counts.copy()
        taken[self._zero] = zeros
        flags = np.zeros(self._size, dtype=bool)
        for each, number in enumerate(taken):
            flags[self._order[self._part(each)][:number]] = True
        return flags


@dataclass(frozen=True)
class _Found:
    """The best mask of one multiplier's chain.

    Attributes:
        multiplier: μ.
        value: the objective; infinite if no mask of the chain keeps the limits.
        short: by how much the limits are missed; 0 if they are kept.
        hidden: number of encrypted weights outside bin z.
        zeros: number of encrypted weights in bin z.
        bound: a lower bound on the objective of every feasible mask; infinite: no mask is feasible.
    """

    multiplier: float
    value: float
    short: float
    hidden: int
    zeros: int
    bound: float

    @property
    def rank(self) -> tuple[float, float]:
        """The sort key, lower is better: first the missing coverage, then the objective."""
        return (self.short, self.value)


class _Chains:
    """The chains of masks that multipliers give. Weights of a bin form groups that are encrypted together."""

    def __init__(self, problem: LeakageProblem, *, group: int, least: int = 0) -> None:
        self._problem, self._group, self._least = problem, group, least
        gains, steps, sizes, bins = [], [], [], []
        for each, count in enumerate(problem._counts.tolist()):
            if each == problem._zero or not count:
                continue
            inside, rises = problem._gains[problem._part(each)], problem._steps[:count]
            if group > 1:
                starts = np.arange(0, count, group)
                inside, rises = np.add.reduceat(inside, starts), np.add.reduceat(rises, starts)
                sizes.append(np.diff(np.append(starts, count)))
            gains.append(inside)
            steps.append(rises)
            bins.append(np.full(inside.size, each))
        self._gains, self._steps, self._bins = (np.concatenate(parts) for parts in (gains, steps, bins))
        self._sizes = np.concatenate(sizes) if group > 1 else None

    def at(self, multiplier: float, goal: Goal, *, bounded: bool = False) -> _Found:
        """Return the best mask of the multiplier's chain; its `bound` is computed only if `bounded`."""
        problem = self._problem
        scores = self._gains - multiplier * self._steps
        order = self._descending(scores)
        hidden, covered = self._numbers(order), running(self._gains[order])
        looks_zero = problem._entropies[problem._counts[problem._zero] + hidden]
        holds = running(self._steps[order]) - looks_zero <= problem._allowance
        bound = -math.inf
        if bounded:
            ceiling = running(scores[order]) + multiplier * (problem._allowance + looks_zero)
            possible = (hidden >= self._least) & (hidden <= goal.most)
            most = np.minimum(ceiling, problem._most_covered[hidden])[possible]
            bounds, _ = problem.respond(goal, hidden[possible], most)
            bound = float(bounds.min(initial=math.inf))
        # Far beyond the first mask that keeps the leakage bound, a smaller multiplier gives better masks.
        first = int(holds.argmax())
        hidden, covered = hidden[first : first + _AFTER], covered[first : first + _AFTER]
        values, zeros = problem.respond(goal, hidden, covered)
        if values.min() == math.inf:
            free = np.clip(goal.most - hidden, 0, problem._zero_gains.size)
            missing = goal.floor - covered - problem._zero_coverage[free]
            missing = np.where(hidden <= goal.most, missing, 1.0 + hidden - goal.most)
            return _Found(multiplier, math.inf, float(missing.min()), 0, 0, bound)
        best = _first_best(values, hidden + zeros, last=goal.cost == 0)
        return _Found(multiplier, float(values[best]), 0.0, int(hidden[best]), int(zeros[best]), bound)

    def counts(self, multiplier: float, hidden: int) -> checks.IntVector:
        """Return how many of the chain's first `hidden` weights are in each bin; for groups of one."""
        order = self._descending(self._gains - multiplier * self._steps)
        return np.bincount(self._bins[order[:hidden]], minlength=self._problem._counts.size)

    @property
    def least(self) -> int:
        """A lower bound on the number of encrypted weights with which a mask keeps the leakage bound."""
        order, first = self._fewest()
        return int(self._numbers(order)[first]) - self._group * self._problem._counts.size

    def fewest(self) -> checks.IntVector:
        """Return the count vector with the fewest encrypted weights that keeps the leakage bound; for groups of one."""
        order, first = self._fewest()
        return np.bincount(self._bins[order[:first]], minlength=self._problem._counts.size)

    def _fewest(self) -> tuple[checks.IntVector, int]:
        """Return the groups, those that lower the leakage most first, and how many of them keep the bound."""
        problem = self._problem
        order = self._descending(-self._steps)
        looks_zero = problem._entropies[problem._counts[problem._zero] + self._numbers(order)]
        return order, int((running(self._steps[order]) - looks_zero <= problem._allowance).argmax())

    def _descending(self, scores: checks.FloatVector) -> checks.IntVector:
        """Return the groups by descending score per weight. The sort is fast: within a bin, scores already descend."""
        return np.argsort(-(scores if self._sizes is None else scores / self._sizes), kind="stable")

    def _numbers(self, order: checks.IntVector) -> checks.IntVector:
        """Return the number of encrypted weights after 0, 1, … groups."""
        if self._sizes is None:
            return np.arange(order.size + 1)
        return running(self._sizes[order]).astype(np.int64)


def running(values: checks.FloatVector) -> checks.FloatVector:
    """Return the sums of the first 0 … N values."""
    sums = np.empty(values.size + 1)
    sums[0] = 0.0
    np.cumsum(values, out=sums[1:])
    return sums


def _first_best(values: checks.FloatVector, numbers: checks.IntVector, *, last: bool) -> int:
    """Return the index of the lowest value; ties: the one with the fewest encrypted, or with `last` the most."""
    ties = np.flatnonzero(values == values.min())
    counted = numbers[ties]
    return int(ties[counted.argmax() if last else counted.argmin()])


def _golden(rank: Callable[[float], tuple[float, float]], low: float, high: float, *, steps: int) -> float:
    """Return the point between `low` and `high` where `rank` is lowest, by golden-section search."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = rank(left), rank(right)
    for _ in range(steps):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = rank(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = rank(right)
    return left if at_left <= at_right else right
