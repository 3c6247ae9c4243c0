"""The best mask under a bound on the mutual information (paper, the MI constraint of the selection problem).

The mutual information depends only on how many weights of each bin are encrypted. With h(t) = t·log2 t, k_x encrypted
weights in bin x, z the bin of zero and M = n_z + Σ_{x≠z} k_x, the bound I ≤ η reads

    Σ_{x≠z} h(k_x) − h(M) ≤ allowance,        a constant of the weights and η,

and within a bin the most sensitive weights go first. For a given number K of encrypted weights outside bin z the left
side is separable and convex, and the protected sensitivity is separable and concave. So a multiplier μ ≥ 0 gives, for
every K at once, the masks that are optimal for their own leakage: the first K weights in descending order of

    γ − μ·(h(r + 1) − h(r)),        r the rank of the weight within its bin.

Any μ also gives a bound on what *any* mask within the leakage bound can protect, hence the `gap` of the answer. Small
problems are solved by enumeration of all (k_x), with gap 0. Weights of bin z look encrypted anyway: they cost what
others cost, protect their own sensitivity and change no leakage.

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

ENUMERATED = 1 << 15  # as many count vectors are tried one by one
_COARSE = 2048  # groups of weights in the first search of the multiplier
_GRID = np.logspace(-8, 1, 13)  # multipliers of that search, relative to the largest sensitivity
_SECTIONS = 8  # of the search between two of them
_AFTER = 256  # masks of a chain that are looked at from the first on that keeps the leakage bound
_REFINEMENTS = 12  # of the multiplier on the whole problem where no mask is found, at most


@dataclass(frozen=True)
class Goal:
    """What to minimise, cost·K − gain·coverage, and within which limits.

    Attributes:
        cost: of encrypting one parameter; 0: as many as there may be.
        gain: of the whole sensitivity.
        most: parameters that may be encrypted.
        floor: coverage that must be reached.
    """

    cost: float
    gain: float
    most: int
    floor: float


@dataclass(frozen=True, eq=False)
class Answer:
    """A mask and how far it may be from the optimum.

    Attributes:
        flags: one bool a parameter.
        gap: no mask within the constraints has an objective that is lower by more.
    """

    flags: BoolVector
    gap: float


class LeakageProblem:
    """Parameters with sensitivities, bins and a bound on the mutual information."""

    def __init__(
        self, order: checks.IntVector, gains: checks.FloatVector, counts: checks.IntVector, zero: int, bound: float
    ) -> None:
        """Take parameters that are sorted by bin.

        Args:
            order: the parameters, bin by bin, those of a bin by descending gain.
            gains: what encrypting each of them gains, in that order.
            counts: parameters in each bin.
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
        """From parameters in descending order of sensitivity.

        Args:
            ranking: the parameters, most sensitive first.
            shares: their shares of the whole sensitivity, in that order.
            bins: the bin of each parameter, by parameter.
            zero: the bin of zero.
            bound: η in bits.
        """
        in_bin = bins[ranking]
        by_bin = np.argsort(in_bin, kind="stable")
        return cls(ranking[by_bin], shares[by_bin], np.bincount(in_bin, minlength=zero + 1), zero, bound)

    def _part(self, which: int) -> slice:
        """Where a bin's parameters stand."""
        return slice(int(self._ends[which] - self._counts[which]), int(self._ends[which]))

    def solve(self, goal: Goal) -> Answer | None:
        """The best mask within the goal's limits and the leakage bound; None: there is none.

        Beyond `ENUMERATED` count vectors, None can also mean that no mask was found and none could be excluded: that
        takes constraints that leave room for less than the sensitivity of single parameters.
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
        """The smallest coverage of a mask within all constraints.

        Up to 14 parameters by trying every mask. Beyond, the floor itself, unless the leakage bound asks for more:
        masks are then so many that one lies within a parameter's sensitivity of it.
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
        """Absolute coverage of the first of every bin, as many as `counts` says."""
        parts = (self._gains[self._part(each)][:number] for each, number in enumerate(counts))
        return float(sum(abs(part.sum()) for part in parts))

    def by_parameter(self) -> checks.FloatVector:
        """The gain of each parameter."""
        gains = np.empty(self._size)
        gains[self._order] = self._gains
        return gains

    def _reversed(self) -> LeakageProblem:
        """The same with gains negative, so the least sensitive first: what protects least is best."""
        places = np.concatenate([np.arange(self._size)[self._part(each)][::-1] for each in range(self._counts.size)])
        return LeakageProblem(self._order[places], -self._gains[places], self._counts, self._zero, self._bound)

    def _enumerate(self, goal: Goal) -> Answer | None:
        """Every number of encrypted weights of every bin."""
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
        """The objective with the best number of weights of bin z beside `hidden` others that cover so much.

        Returns:
            Values, infinite where the limits cannot be kept; and the numbers.
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
        """The mask of the first of every bin."""
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
        value: of the goal; infinite if no mask of the chain keeps the limits.
        short: coverage that the limits miss, if they do.
        hidden: encrypted outside bin z.
        zeros: encrypted in it.
        bound: no mask within all constraints has a lower value; infinite: there is none.
    """

    multiplier: float
    value: float
    short: float
    hidden: int
    zeros: int
    bound: float

    @property
    def rank(self) -> tuple[float, float]:
        """The lower the better: first how much is missing, then the value."""
        return (self.short, self.value)


class _Chains:
    """The masks that multipliers give, in groups of weights of a bin that are encrypted together."""

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
        """What the chain of that multiplier gives; its bound only if asked for."""
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
        # Beyond the first mask that keeps the leakage bound, a smaller multiplier gives better ones.
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
        """How many of each bin are in the chain's first `hidden`; for groups of one."""
        order = self._descending(self._gains - multiplier * self._steps)
        return np.bincount(self._bins[order[:hidden]], minlength=self._problem._counts.size)

    @property
    def least(self) -> int:
        """A number of encrypted weights below which no mask keeps the leakage bound."""
        order, first = self._fewest()
        return int(self._numbers(order)[first]) - self._group * self._problem._counts.size

    def fewest(self) -> checks.IntVector:
        """Counts with the fewest encrypted weights that keep the leakage bound; for groups of one."""
        order, first = self._fewest()
        return np.bincount(self._bins[order[:first]], minlength=self._problem._counts.size)

    def _fewest(self) -> tuple[checks.IntVector, int]:
        """The groups that lower the leakage most first, and how many of them keep the bound."""
        problem = self._problem
        order = self._descending(-self._steps)
        looks_zero = problem._entropies[problem._counts[problem._zero] + self._numbers(order)]
        return order, int((running(self._steps[order]) - looks_zero <= problem._allowance).argmax())

    def _descending(self, scores: checks.FloatVector) -> checks.IntVector:
        """The groups by score per weight; within a bin scores descend already, so the sort merges a few runs."""
        return np.argsort(-(scores if self._sizes is None else scores / self._sizes), kind="stable")

    def _numbers(self, order: checks.IntVector) -> checks.IntVector:
        """Encrypted weights after 0, 1, … groups."""
        if self._sizes is None:
            return np.arange(order.size + 1)
        return running(self._sizes[order]).astype(np.int64)


def running(values: checks.FloatVector) -> checks.FloatVector:
    """Sums of the first 0 … N values."""
    sums = np.empty(values.size + 1)
    sums[0] = 0.0
    np.cumsum(values, out=sums[1:])
    return sums


def _first_best(values: checks.FloatVector, numbers: checks.IntVector, *, last: bool) -> int:
    """The place of the lowest value; of equals the one with the fewest encrypted, or with `last` the most."""
    ties = np.flatnonzero(values == values.min())
    counted = numbers[ties]
    return int(ties[counted.argmax() if last else counted.argmin()])


def _golden(rank: Callable[[float], tuple[float, float]], low: float, high: float, *, steps: int) -> float:
    """Where `rank` is lowest between two points, by golden sections."""
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
