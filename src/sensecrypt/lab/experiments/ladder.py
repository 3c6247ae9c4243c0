"""Our own: every adversary of the ladder against every policy, the source of the tables in docs/security.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sensecrypt.lab.assess.protection import Protection
from sensecrypt.lab.assess.setting import NAMES
from sensecrypt.lab.assess.table import attack_rows
from sensecrypt.lab.drawing import Figure, sheet
from sensecrypt.lab.experiments.charts import heat_map
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import distinct, where

FIGURES = ("leacc", "lnacc", "irec", "distance", "top1")


def cells(spec: Spec) -> list[Cell]:
    """One cell per distribution: policies share the clients."""
    seconds = 0.6 * spec["seeds"] * len(spec["protections"])
    return [Cell(f"classes-{kind}", seconds, partial(_measure, kind, spec)) for kind in spec["distributions"]]


def _measure(distribution: str, spec: Spec, _folder: Path) -> list[Row]:
    protections = [Protection(*each) for each in spec["protections"]]
    attack = partial(attack_rows, samples=spec["batch"], seeds=spec["seeds"], first_seed=spec["first_seed"], workers=2)
    found = attack(spec["model"], spec["dataset"], protections=protections, distributions=[distribution])
    kept = ("adversary", "policy", "preset", "rest", "distribution", "seeds", "share")
    figures = [name for figure in FIGURES for name in (figure, f"{figure}_half")]
    return [{key: row[key] for key in (*kept, *figures)} for row in found]


def draw(rows: Rows) -> Figure:
    """The gain of each adversary: 0 for guessing, 1 for all counts right."""
    kinds = distinct(rows, "distribution")
    names = list(dict.fromkeys(_name(row) for row in rows))
    who = [name for name in NAMES if name != "prior" and any(row["adversary"] == name for row in rows)]
    title = "What adversaries learn of label counts: 0 = guessing, 1 = every count right; white: not applicable"
    figure, panels = sheet(title, panels=len(kinds), size=(13, 0.42 * len(names) * np.ceil(len(kinds) / 2) + 2.6))
    for axes, kind in zip(panels, kinds, strict=True):
        own = {(_name(row), row["adversary"]): row["lnacc"] for row in rows if row["distribution"] == kind}
        guess = own[names[0], "prior"]
        gains = [[_gain(own.get((name, each)), guess) for each in who] for name in names]
        heat_map(axes, gains, yticks=names, write=True, low=0.0, high=1.0)
        axes.set_title("IID" if kind == "iid" else f"{kind} class(es) per client")
        axes.set_xticks(range(len(who)), who, rotation=35, ha="right", rotation_mode="anchor")
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The default preset, fully and partly encrypted, and the paper's, each by its strongest adversary."""
    whole = [row for row in rows if row["share"] > 0.999 and row["preset"] == "default"]
    worst, whose = _strongest(rows, whole)
    alone = [row for row in whole if row["adversary"] != "collusion"]
    verdicts = [
        Verdict(
            "default preset, everything encrypted: is every adversary, the colluding one included, at the prior?",
            f"largest gain in label counts over guessing: {worst:.3f} ({whose}; {len(whole)} rows, "
            f"{_strongest(rows, alone)[0]:.3f} without collusion)",
            answer(worst <= 0.01),
        )
    ]
    partly = [row for row in rows if row["preset"] == "default" and row["share"] < 0.999]
    for rest, share in sorted({(row["rest"], round(row["share"], 2)) for row in partly}):
        part = [row for row in partly if (row["rest"], round(row["share"], 2)) == (rest, share)]
        single = _strongest(rows, [row for row in part if row["adversary"] != "collusion"])
        together = _strongest(rows, where(part, adversary="collusion"))
        verdicts.append(
            Verdict(
                f"default preset, {share:.0%} encrypted, the rest {rest}: what do the aggregator alone and one with a "
                "member learn?",
                f"largest gain over guessing: alone {single[0]:.2f} ({single[1]}), with a member {together[0]:.2f} "
                f"({together[1]})",
                answer(max(single[0], together[0]) <= 0.05),
            )
        )
    papers = [row for row in rows if row["preset"] == "paper" and row["share"] > 0]
    for policy, rest in dict.fromkeys((row["policy"], row["rest"]) for row in papers):
        own = where(papers, policy=policy, rest=rest)
        weak = _strongest(rows, where(own, adversary="zero-fill"))
        strong = _strongest(rows, own)
        verdicts.append(
            Verdict(
                f"{policy}, {_percent(own[0]['share'])} encrypted, the rest {rest}: does it withstand inversion "
                "attacks?",
                f"largest gain over guessing: {weak[0]:.2f} for zero-fill, {strong[0]:.2f} for the strongest "
                f"({strong[1]}); 1 would be every count",
                graded(strong[0] < 0.2),
            )
        )
    return verdicts


def _strongest(rows: Rows, among: Rows) -> tuple[float, str]:
    """The largest gain over guessing for the same clients, and its adversary."""
    guesses = {row["distribution"]: row["lnacc"] for row in rows if row["adversary"] == "prior"}
    gains = [(_gain(row["lnacc"], guesses[row["distribution"]]), row) for row in among]
    best, row = max(gains, key=lambda pair: pair[0])
    kind = "IID" if row["distribution"] == "iid" else f"{row['distribution']} class(es)"
    return best, f"{row['adversary']}, {kind}"


def _gain(value: float | None, guess: float) -> float:
    """The gain: 0 for guessing, 1 for all counts right."""
    return float("nan") if value is None else max(value - guess, 0.0) / (1 - guess)


def _name(row: Mapping[str, Any]) -> str:
    if row["policy"] == "plaintext":
        return "blinding only" if row["rest"] == "blinded" else "plaintext"
    blinded = ", blinded" if row["rest"] == "blinded" and row["share"] < 0.999 else ""
    return f"{row['policy']} ({row['preset']}) {_percent(row['share'])}{blinded}"


def _percent(share: float) -> str:
    """A share; without decimals from 5 % on, as larger shares differ between clients."""
    return f"{share:.1%}" if share < 0.05 else f"{share:.0%}"


ITEM = Item("ladder", "Every adversary against every policy", "", cells, draw, judge)
