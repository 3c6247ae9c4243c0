"""Appendix H: which parameters to encrypt first, by mutual information and by what iLRG still finds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from sensecrypt.assess.protection import Protection
from sensecrypt.assess.table import attack_rows
from sensecrypt.drawing import colour_of, number, sheet
from sensecrypt.experiments.charts import lines
from sensecrypt.experiments.item import Cell, Item, Row, Rows, Spec, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = {"high": "high_sensitivity", "low": "low_sensitivity", "random": "random"}
SHARP = 0.1  # the share above which the paper's curves have dropped
_KEPT = ("adversary", "share", "mi", "seeds", "leacc", "leacc_half", "lnacc", "lnacc_half")


def cells(spec: Spec) -> list[Cell]:
    """The paper's attacker at every share, then the one who reads all layers at a few."""
    paper = partial(_measure, spec, spec["shares"], "zero-fill", spec["seeds"])
    strong = partial(_measure, spec, spec["strong_shares"], "prototype", spec["strong_seeds"])
    return [
        Cell("zero-fill", 0.035 * spec["seeds"] * 3 * len(spec["shares"]), paper),
        Cell("prototype", 0.6 * spec["strong_seeds"] * (1 + 3 * len(spec["strong_shares"])), strong),
    ]


def _measure(spec: Spec, shares: list[float], adversary: str, seeds: int, _folder: Path) -> list[Row]:
    found = attack_rows(
        spec["model"],
        spec["dataset"],
        samples=spec["samples"],
        seeds=seeds,
        first_seed=spec["first_seed"],
        protections=[Protection(policy, "paper", share) for policy in POLICIES.values() for share in shares],
        attacks=(adversary,),
        workers=2,
    )
    first = {policy: name for name, policy in POLICIES.items()} | {"plaintext": "nothing"}
    return [{"first": first[row["policy"]], **{key: row[key] for key in _KEPT}} for row in found]


def draw(rows: Rows) -> Figure:
    """MI, LeAcc and LnAcc against the encrypted share."""
    figure, panels = sheet("Encrypting high, low or random sensitivity first", panels=3, size=(13, 4.2))
    for axes, key, label in zip(panels, ("mi", "leacc", "lnacc"), ("MI in bits", "LeAcc", "LnAcc"), strict=True):
        series = {f"{first} first": _curve(rows, first, "zero-fill", key) for first in POLICIES}
        lines(axes, series, xlabel="encrypted share", ylabel=label)
        if key != "mi":
            for place, first in enumerate(POLICIES):
                x, y = _curve(rows, first, "prototype", key)
                axes.plot(x, y, "x", color=colour_of(place), ms=7)
            axes.plot([], [], "kx", ms=7, label="the same, attacker\nwho reads all layers")
            prior = _of(rows, "nothing", "prior")[0][key]
            axes.axhline(prior, color="grey", linestyle="--", linewidth=1, label="guessing")
            axes.set_ylim(0, 1.05)
            axes.legend(fontsize=8)
        else:
            axes.set_ylim(bottom=0)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """Each curve against its description."""
    mi = {first: _curve(rows, first, "zero-fill", "mi") for first in POLICIES}
    lnacc = {first: _curve(rows, first, "zero-fill", "lnacc") for first in POLICIES}
    leacc = {first: _curve(rows, first, "zero-fill", "leacc") for first in POLICIES}
    prior = _of(rows, "nothing", "prior")[0]
    x, y = (np.array(each) for each in mi["random"])
    straight = float(np.corrcoef(x, y)[0, 1] ** 2)
    fallen = float(y[-1] / y[0])
    kept = mi["low"][1][-1] / mi["low"][1][0]
    beyond = [value / mi["high"][1][0] for share, value in zip(*mi["high"], strict=True) if share > SHARP]
    late = {first: [v for share, v in zip(*lnacc[first], strict=True) if share >= SHARP - 1e-3] for first in POLICIES}
    follows = max(late["high"]) < 0.3 and min(late["low"]) > 0.9 and late["random"][-1] < late["random"][0] - 0.2
    later = {first: [v for share, v in zip(*leacc[first], strict=True) if share >= SHARP - 1e-3] for first in POLICIES}
    exists = min(later["low"]) > 0.9 and max(later["high"]) < 0.7
    gap = min(low - high for low, high in zip(late["low"], late["high"], strict=True))
    stops = {first: _stopped(lnacc[first], prior["lnacc"] + 0.05) for first in POLICIES}
    everything = [row for row in rows if row["adversary"] == "zero-fill"]
    rank = float(spearmanr([row["mi"] for row in everything], [row["lnacc"] for row in everything]).statistic)
    guess = f"guessing {prior['leacc']:.2f}/{prior['lnacc']:.2f}, plaintext {_plain(rows)}"
    return [
        Verdict(
            "MI of random falls almost linearly",
            f"from {y[0]:.2f} to {y[-1]:.2f} bits at {x[-1]:.0%}; R² of a straight line {straight:.3f}",
            "reproduced" if straight > 0.97 and fallen < 0.5 else "not reproduced",
        ),
        Verdict(
            "MI of low first remains almost unchanged",
            f"{mi['low'][1][0]:.2f} bits at 0, {mi['low'][1][-1]:.2f} at {mi['low'][0][-1]:.0%}, much as high "
            f"({mi['high'][1][-1]:.2f}) and random ({mi['random'][1][-1]:.2f})",
            "reproduced" if kept > 0.8 else "not reproduced",
        ),
        Verdict(
            "MI of high first drops sharply to almost 0 above a share of 0.1",
            f"{beyond[0]:.0%} of its start is left at the first share above 0.1, {beyond[-1]:.0%} at the last",
            "reproduced" if beyond[0] < 0.1 else "not reproduced",
        ),
        Verdict(
            "LeAcc and LnAcc follow: high drops at 0.1, low stays, random falls slowly",
            f"LnAcc from 10 % on: high at most {max(late['high']):.2f}, low at least {min(late['low']):.2f}, random "
            f"{late['random'][0]:.2f} to {late['random'][-1]:.2f}; LeAcc: high {min(later['high']):.2f} to "
            f"{max(later['high']):.2f}, low at least {min(later['low']):.2f}; {guess}",
            "reproduced" if follows and exists else "reproduced in shape" if follows else "not reproduced",
        ),
        Verdict(
            "high and low first are in stark contrast",
            f"LnAcc of low is at least {gap:.2f} above that of high at every share from 10 % on",
            "reproduced" if gap > 0.5 else "not reproduced",
        ),
        Verdict(
            "random reaches the same protection, at significantly more encryption than high",
            f"LnAcc is down to guessing from {_words(stops['high'])} (high), {_words(stops['random'])} (random), "
            f"{_words(stops['low'])} (low)",
            "reproduced" if stops["high"] is not None and _more(stops["random"], stops["high"]) else "not reproduced",
        ),
        Verdict(
            "so MI is a reliable measure of leakage",
            f"rank correlation of MI and LnAcc over all points {rank:.2f}; at {_middle(rows)}",
            "reproduced" if rank > 0.8 else "not reproduced",
        ),
        _strong(rows, prior),
    ]


def _strong(rows: Rows, prior: Mapping[str, Any]) -> Verdict:
    own = [row for row in rows if row["adversary"] == "prototype" and row["first"] == "high"]
    words = ", ".join(f"{row['lnacc']:.2f} at {row['share']:.0%}" for row in own)
    least = min(own, key=lambda row: row["share"])
    return Verdict(
        "(ours) does high first stop one who reads all layers, with labelled data of his own?",
        f"LnAcc of high first {words}; guessing {prior['lnacc']:.2f}",
        "not reproduced" if least["lnacc"] > prior["lnacc"] + 0.3 else "beyond",
    )


def _of(rows: Rows, first: str, adversary: str) -> list[Any]:
    own = [row for row in rows if row["first"] == first and row["adversary"] == adversary]
    return sorted(own, key=lambda row: float(row["share"]))


def _curve(rows: Rows, first: str, adversary: str, key: str) -> tuple[list[float], list[float]]:
    """Against the share, from nothing encrypted on."""
    own = [*_of(rows, "nothing", adversary)[:1], *_of(rows, first, adversary)]
    return [float(row["share"]) for row in own], [float(row[key]) for row in own]


def _stopped(curve: tuple[list[float], list[float]], bound: float) -> float | None:
    """The least share from which on the figure stays below the bound."""
    shares = [share for place, share in enumerate(curve[0]) if max(curve[1][place:]) <= bound]
    return shares[0] if shares else None


def _more(share: float | None, than: float) -> bool:
    return share is None or share >= 2 * than


def _words(share: float | None) -> str:
    return "nowhere" if share is None else f"{share:.0%}"


def _plain(rows: Rows) -> str:
    row = _of(rows, "nothing", "zero-fill")[0]
    return f"{row['leacc']:.2f}/{row['lnacc']:.2f}"


def _middle(rows: Rows) -> str:
    """The three strategies where they differ most in what they protect and least in MI."""
    shares = [share for share in _curve(rows, "low", "zero-fill", "mi")[0] if share > 0]
    place = min(range(len(shares)), key=lambda at: abs(shares[at] - 0.4)) + 1
    parts = []
    for first in POLICIES:
        bits, found = (_curve(rows, first, "zero-fill", key)[1][place] for key in ("mi", "lnacc"))
        parts.append(f"{first} {number(bits)} bits, LnAcc {found:.2f}")
    return f"{shares[place - 1]:.0%}: " + "; ".join(parts)


ITEM = Item(
    "strategies",
    "Mutual information and attacks by what is encrypted first",
    "Appendix H",
    lambda spec: [spec["dataset"]],
    cells,
    draw,
    judge,
)
