"""`sensecrypt bench selection`: our selection against HiGHS on the LP relaxation of the same instance."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from sensecrypt import checks
from sensecrypt.algo.selection import security_floor, select
from sensecrypt.errors import SenseCryptError
from sensecrypt.lab.bench.measure import in_own_process, median_seconds
from sensecrypt.lab.bench.table import Report, Row, Shown, Table, described

BUDGET, B, C, MAX_MI = 0.3, 2.0, 0.5, 2.0
ALEXNET = 124_534


def run(sizes: Sequence[int], *, repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Compare at AlexNet's size, then measure the growth of our cost over `sizes`."""
    on_step(f"ours and HiGHS at {ALEXNET:,} parameters")
    against = [_against_highs(ALEXNET, repeats=repeats, seed=seed)]
    growth = []
    for size in sizes:
        on_step(f"all constraints at {size:,} parameters")
        cost = in_own_process(_select_once, size, seed)
        times: Row = {"seconds": cost.seconds, "microseconds_per_parameter": 1e6 * cost.seconds / size}
        growth.append({"parameters": size, **times, "peak_mb": cost.peak_mb})
    settings = {"budget": BUDGET, "B": B, "C": C, "max_mi": MAX_MI, "repeats": repeats}
    return {"settings": settings, "against_highs": against, "growth": growth}


def instance(size: int, seed: int) -> tuple[checks.FloatVector, checks.FloatVector]:
    """Weights and sensitivities like a trained network's: a third of the sensitivities is 0, the rest long-tailed."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0.0, 0.05, size)
    gradients = rng.lognormal(-8.0, 1.5, size)
    gradients[rng.random(size) < 1 / 3] = 0.0
    return weights, np.abs(weights * gradients)


def _against_highs(size: int, *, repeats: int, seed: int) -> Row:
    weights, gains = instance(size, seed)
    ours = median_seconds(lambda: select(gains, BUDGET, B=B, C=C), repeats=repeats)
    bounded = partial(select, gains, BUDGET, B=B, C=C, max_mi=MAX_MI, weights=weights)
    with_mi = median_seconds(bounded, repeats=repeats)
    highs = median_seconds(lambda: _highs(gains), repeats=max(1, repeats // 3))
    found, within = select(gains, BUDGET, B=B, C=C), bounded()
    objectives = [each.mask.share - each.coverage for each in (found, within)]
    return {
        "parameters": size,
        "ours_seconds": ours,
        "ours_with_mi_seconds": with_mi,
        "highs_seconds": highs,
        "ratio": highs / ours,
        "ratio_with_mi": highs / with_mi,
        "ours_objective": objectives[0],
        "highs_lower_bound": _highs(gains),
        "objective_with_mi": objectives[1],
        "gap_with_mi": within.gap,
        "decided_by_with_mi": within.decided_by,
    }


def shown(report: Report) -> Iterator[Shown]:
    """Both tables."""
    columns = ("solver", "constraints", "seconds", "HiGHS ÷ ours", "objective")
    lines = (
        ("HiGHS, LP relaxation", "budget, security", "{highs_seconds:.4f}", "", "{highs_lower_bound:.6f}"),
        ("ours", "budget, security", "{ours_seconds:.4f}", "{ratio:.0f}", "{ours_objective:.6f}"),
        (
            *("ours", "budget, security, MI", "{ours_with_mi_seconds:.4f}", "{ratio_with_mi:.0f}"),
            "{objective_with_mi:.6f} (gap {gap_with_mi:.1g}, decided by {decided_by_with_mi})",
        ),
    )
    for row in report["against_highs"]:
        title = f"Selection of {row['parameters']:,} parameters (medians of {report['settings']['repeats']})"
        yield Table(title, columns, [[cell.format(**row) for cell in line] for line in lines])
    yield described(
        "Growth, all three constraints (one call each, in its own process)",
        [
            ("parameters", "parameters:,"),
            ("seconds", "seconds:.3f"),
            ("µs per parameter", "microseconds_per_parameter:.3f"),
            ("peak MB", "peak_mb:,.0f"),
        ],
        report["growth"],
    )


def _highs(gains: checks.FloatVector) -> float:
    """The LP relaxation: 0 ≤ x ≤ 1, budget and security floor as two sparse rows."""
    share = gains / gains.sum()
    size = gains.size
    rows: Any = csr_matrix(np.vstack([np.ones(size), -share]))  # the type stubs accept dense rows only
    bounds = [math.floor(BUDGET * size), -security_floor(BUDGET, B=B, C=C)]
    solution = linprog(1 / size - share, A_ub=rows, b_ub=bounds, bounds=(0, 1), method="highs")
    if solution.fun is None:
        raise SenseCryptError(f"HiGHS found no solution: {solution.message}")
    return float(solution.fun)


def _select_once(size: int, seed: int) -> tuple[float, str]:
    weights, gains = instance(size, seed)
    start = time.perf_counter()
    found = select(gains, BUDGET, B=B, C=C, max_mi=MAX_MI, weights=weights, on_infeasible="budget")
    return time.perf_counter() - start, found.decided_by
