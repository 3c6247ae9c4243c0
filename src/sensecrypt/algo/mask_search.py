"""Search for the best mask: among the prefixes of one order, or among all masks under a bound on the leakage.

A prefix is the first K blocks of the order. With K, coverage rises and leakage falls. So the prefixes that meet all
constraints form an interval, and the best prefix is an `argmin` over it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, cast

import numpy as np

from sensecrypt import checks
from sensecrypt.algo.leakage import BinVector, leakage_allowance, xlog2x
from sensecrypt.algo.leakage_constraint import Goal, LeakageProblem
from sensecrypt.types import BoolVector, Decision

Constraint = Literal["budget", "security", "mi"]
CONSTRAINTS: tuple[Constraint, ...] = ("budget", "security", "mi")
Extremes = tuple[tuple[int, int], tuple[float, float]]
_ENUMERATED = 14  # up to this many blocks, all masks are tried for the least coverage


@dataclass(frozen=True, eq=False)
class Chosen:
    """A mask.

    Attributes:
        count: number of encrypted blocks.
        flags: one bool per block; None: the first `count` blocks of the order are encrypted.
        gap: an upper bound on how much lower the objective of another mask can be.
    """

    count: int
    flags: BoolVector | None = None
    gap: float = 0.0


class PrefixSearch:
    """Prefixes of one order of the blocks."""

    def __init__(
        self,
        coverage: checks.FloatVector,
        floor: float,
        *,
        forced: int = 0,
        tight: BoolVector | None = None,
        every_mask: bool = False,
    ) -> None:
        """Store the constraints.

        Args:
            coverage: the coverage of the first 0 … N blocks.
            floor: the smallest coverage.
            forced: the number of blocks that must be encrypted.
            tight: for 0 … N blocks, whether the leakage bound holds; None: there is no bound.
            every_mask: whether any set of blocks may be encrypted; the best are prefixes, `extremes` needs all.
        """
        self.coverage, self.total = coverage, coverage.size - 1
        self._floor, self._every_mask = floor, every_mask
        self._least: dict[Constraint, int] = {
            "budget": 0,
            "security": max(forced, int((coverage >= floor).argmax())),
            "mi": 0 if tight is None else int(tight.argmax()),
        }
        self._bounded = tight is not None

    @property
    def needed_for_security(self) -> int:
        """The fewest blocks that reach the floor."""
        return self._least["security"]

    @property
    def needed_for_mi(self) -> int | None:
        """The fewest blocks that keep the leakage bound; None: there is no bound."""
        return self._least["mi"] if self._bounded else None

    def best(self, goal: Goal) -> Chosen | None:
        """Return the best prefix that meets all constraints; None: there is none."""
        count = self._best(goal)
        return None if count is None else Chosen(count)

    def covered(self, chosen: Chosen) -> float:
        """Return the coverage of a mask."""
        return float(self.coverage[chosen.count])

    def extremes(self, allowed: int) -> Extremes | None:
        """Return the smallest and largest number of blocks, and coverage, of the masks that meet all constraints."""
        low = max(self._least.values())
        if low > allowed:
            return None
        least = float(self.coverage[low])
        if self._every_mask:
            least = self._least_coverage(float(self.coverage[allowed]), allowed)
        return (low, allowed), (least, float(self.coverage[allowed]))

    def decided_by(self, count: int, goal: Goal) -> Decision:
        """Return the constraint without which the best prefix would differ; "objective" if there is none."""
        free = self._best(goal, without=CONSTRAINTS)
        if free == count:
            return "objective"
        for name in CONSTRAINTS:
            if self._best(goal, without=(name,)) != count:
                return name
        # Two constraints demand the same count: return the first that the unconstrained optimum breaks.
        if cast(int, free) > goal.most:
            return "budget"
        return "security" if cast(int, free) < self._least["security"] else "mi"

    def _best(self, goal: Goal, *, without: tuple[Constraint, ...] = ()) -> int | None:
        low = max((least for name, least in self._least.items() if name not in without), default=0)
        high = self.total if "budget" in without else goal.most
        if low > high:
            return None
        if goal.cost == 0:
            return high
        if goal.gain == 0:
            return low
        score = np.arange(low, high + 1) * goal.cost
        score -= goal.gain * self.coverage[low : high + 1]
        return low + int(score.argmin())

    def _least_coverage(self, most: float, allowed: int) -> float:
        """Return the smallest coverage of any mask above the floor; with many blocks, that is close to the floor."""
        if self.total > _ENUMERATED:
            return min(self._floor, most)
        every = np.arange(1 << self.total)[:, None] >> np.arange(self.total) & 1
        covered = (every @ np.diff(self.coverage))[every.sum(axis=1) <= allowed]
        return float(covered[covered >= self._floor].min(initial=most))


class LeakageSearch(PrefixSearch):
    """Search among all masks under a bound on the leakage. The prefix is the answer if it keeps the bound."""

    def __init__(
        self,
        coverage: checks.FloatVector,
        floor: float,
        *,
        ranking: checks.IntVector,
        bins: BinVector,
        zero: int,
        bound: float,
    ) -> None:
        """Store the constraints.

        Args:
            coverage: the coverage of the 0 … N most sensitive parameters.
            floor: the smallest coverage.
            ranking: the parameters, most sensitive first.
            bins: the bin of each parameter's weight, by parameter.
            zero: the bin of zero.
            bound: the bound on the mutual information, in bits.
        """
        super().__init__(coverage, floor)
        self._bins, self._ranked_bins, self._zero, self._bound = bins, bins[ranking], zero, bound
        self._ranking = ranking

    @cached_property
    def _problem(self) -> LeakageProblem:
        return LeakageProblem.of_ranking(self._ranking, np.diff(self.coverage), self._bins, self._zero, self._bound)

    @property
    def needed_for_mi(self) -> int | None:
        """The fewest parameters, of any sensitivity, that keep the leakage bound."""
        found = self._problem.solve(Goal(1.0, 0.0, self.total, -math.inf))
        return self.total if found is None else int(np.count_nonzero(found.flags))

    def best(self, goal: Goal) -> Chosen | None:
        """Return the best mask that meets all constraints; None: there is none."""
        count = self._best(goal)
        if count is None:
            return None  # infeasible even without the leakage bound
        if self._keeps_bound(count):
            return Chosen(count)
        found = self._problem.solve(goal)
        return None if found is None else Chosen(int(np.count_nonzero(found.flags)), found.flags, found.gap)

    def extremes(self, allowed: int) -> Extremes | None:
        """Return the smallest and largest number of parameters, and coverage, of the masks within all constraints."""
        goal = Goal(1.0, 0.0, allowed, self._floor)
        fewest, best = self.best(goal), self.best(replace(goal, cost=0.0, gain=1.0))
        if fewest is None or best is None:
            return None
        most = self.covered(best)
        return (fewest.count, allowed), (min(most, self._problem.least_coverage(self._floor, allowed)), most)

    def covered(self, chosen: Chosen) -> float:
        """Return the coverage of a mask."""
        if chosen.flags is None:
            return float(self.coverage[chosen.count])
        return float(np.diff(self.coverage)[chosen.flags[self._ranking]].sum())

    def _keeps_bound(self, count: int) -> bool:
        """Return whether encrypting the `count` most sensitive parameters keeps the leakage bound."""
        counts = np.bincount(self._ranked_bins, minlength=self._zero + 1)
        encrypted = np.bincount(self._ranked_bins[:count], minlength=counts.size)
        encrypted[self._zero] = 0
        left = xlog2x(encrypted).sum() - xlog2x(counts[self._zero] + encrypted.sum())
        return bool(left <= leakage_allowance(counts, self._zero, self._bound))
