"""The cost of fixed groups when clients drop out: how many rounds are released, with how many updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sensecrypt.errors import Rejected
from sensecrypt.lab.bench.table import Row, Shown, described
from sensecrypt.protocol.releaserules import ReleaseRules, check_groups, make_groups
from sensecrypt.rng import derive_rng

LEAST, QUORUM, ROUNDS = 3, 0.5, 100


def run(*, runs: int, seed: int, on_step: Callable[[str], object]) -> list[Row]:
    """Means over runs of 100 rounds with one attempt each: the share of rounds released, and of updates used.

    Sums are of `any` clients, or follow the rule with all clients that arrive (`fixed`) or whole groups (`whole`).
    """
    rows = []
    for clients in (10, 100):
        for dropout in (0.01, 0.05, 0.1):
            on_step(f"{clients} clients, {dropout:.0%} drop out")
            for way in ("any", "fixed", "whole"):
                shares = [play(way, clients, dropout, rng=derive_rng(seed, "groups", run)) for run in range(runs)]
                released, used = np.mean(shares, axis=0).tolist()
                means = {"released": released, "used": used, "runs": runs}
                rows.append({"clients": clients, "dropout": dropout, "way": way, **means})
    return rows


def shown(rows: Sequence[Row]) -> Iterator[Shown]:
    """The table."""
    yield described(
        f"{ROUNDS} rounds, one attempt each, min_contributors {LEAST}, quorum {QUORUM} "
        f"(means of {rows[0]['runs']} runs)",
        [
            ("clients", "clients"),
            ("drop out", "dropout:.0%"),
            ("groups", "way"),
            ("rounds released", "released:.1%"),
            ("updates used", "used:.1%"),
        ],
        rows,
    )


def play(way: str, clients: int, dropout: float, *, rng: np.random.Generator) -> tuple[float, float]:
    """One run: the share of its rounds that are released, and of its updates that are used."""
    weights, rules = dict.fromkeys(range(clients), 1 / clients), ReleaseRules(LEAST, QUORUM)
    sums: dict[frozenset[int], dict[int, float]] = {}  # a second sum of the same clients adds nothing to check
    released = used = 0
    for _ in range(ROUNDS):
        there = frozenset(np.flatnonzero(rng.random(clients) >= dropout).tolist())
        if way == "whole":
            there = frozenset().union(*(group for group in make_groups(weights, LEAST) if group <= there))
        own = {client: weights[client] for client in there}
        try:
            rules.check(weights, there)
            if way != "any":
                check_groups(own, list(sums.values()), LEAST)
        except Rejected:
            continue
        sums[there] = own
        released, used = released + 1, used + len(there)
    return released / ROUNDS, used / ROUNDS / clients
