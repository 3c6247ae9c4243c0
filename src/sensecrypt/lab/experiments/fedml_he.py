"""Appendix O: the cost of FedML-HE's sensitivity."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sensecrypt.lab.bench.sensitivity import PAPER_SECONDS, run
from sensecrypt.lab.drawing import Figure, log_axis, number
from sensecrypt.lab.experiments.charts import bars, panel_each
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded

PUBLISHED, MAP = "FedML-HE, as published", "FedML-HE, forward over backward pass"
SENSECRYPT, MASKCRYPT = "SenseCrypt, |w·g|", "MaskCrypt, (w_exp - w)·g"
SHORT = {
    PUBLISHED: "FedML-HE,\nas published",
    MAP: "FedML-HE,\nour way",
    SENSECRYPT: "SenseCrypt",
    MASKCRYPT: "MaskCrypt",
}
HOURS = 4 * 3600
OPTIMISED_SECONDS, OPTIMISED_MB = 340, 100_000  # of FedML-HE, the paper's best


def cells(spec: Spec) -> list[Cell]:
    """One cell per network."""
    seconds = {"mlp": 6 + 1.0 * spec["repeats"], "alexnet": 8 + 4.0 * spec["repeats"]}
    return [Cell(model, seconds[model], partial(_measure, spec, model)) for model in spec["models"]]


def _measure(spec: Spec, model: str, _folder: Path) -> list[Row]:
    own = {key: spec[key] for key in ("samples", "repeats", "seed")}
    report = run([model], on_step=lambda _step: None, **own)
    [measured] = report["models"]
    common = {key: measured[key] for key in ("model", "parameters", "samples", "map_mb")}
    return [{**common, "timed_passes": report["timed_passes"], **row} for row in measured["rows"]]


def draw(rows: Rows) -> Figure:
    """Seconds of each method, beside the paper's."""
    title = f"Sensitivity of all parameters over {rows[0]['samples']} samples, one core"
    figure, panels = panel_each(rows, "model", title, width=6.2, height=4.6, least=0)
    for axes, part in panels:
        name, own = part[0]["model"], {row["method"]: row for row in part}
        ours = [own[method]["seconds"] for method in SHORT]
        paper = [PAPER_SECONDS[name], *([float(OPTIMISED_SECONDS), 0.1, 0.1] if name == "mlp" else [])]
        bars(axes, list(SHORT.values()), {"here": ours}, ylabel="seconds")
        beside = [place + 0.44 for place in range(len(paper))]
        axes.plot(beside, paper, "kx", markersize=8, label="the paper (the last two: less than that)")
        log_axis(axes, "y", [*ours, *paper, 3 * max(ours)])
        axes.legend(fontsize=8)
        axes.set_title(f"{name}, {own[MAP]['parameters']:,} parameters")
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The times of FedML-HE as published, of our way to its map, and of |w·g|."""
    seconds = {(row["model"], row["method"]): row["seconds"] for row in rows}
    models = {row["model"]: row for row in rows if row["method"] == PUBLISHED}
    published = {name: seconds[name, PUBLISHED] for name in models}
    ours = {name: seconds[name, MAP] for name in models}
    fast = {(name, method): seconds[name, method] for name in models for method in (SENSECRYPT, MASKCRYPT)}
    small = "mlp" if "mlp" in models else next(iter(models))
    quick = max(fast[small, SENSECRYPT], fast[small, MASKCRYPT]) < 0.1
    cheap = [ours[name] < OPTIMISED_SECONDS / 10 and models[name]["map_mb"] < OPTIMISED_MB / 10 for name in models]
    return [
        *(
            Verdict(
                f"{name}: FedML-HE takes {PAPER_SECONDS[name]:,.0f} s, more than 4 hours, on 5 threads",
                f"about {published[name]:,.0f} s on one core, from {row['timed_passes']} of "
                f"{row['parameters'] * row['samples']:,} backward passes; "
                f"{published[name] / fast[name, SENSECRYPT]:,.0f} times SenseCrypt's",
                graded(published[name] > HOURS, published[name] > 1_000 * fast[name, SENSECRYPT]),
            )
            for name, row in models.items()
        ),
        Verdict(
            "SenseCrypt and MaskCrypt take less than 0.1 s (for 50,000 parameters)",
            ", ".join(f"{name}: {method.split(',')[0]} {number(each)} s" for (name, method), each in fast.items())
            + ", the gradient included",
            graded(quick, max(fast.values()) < 0.001 * min(published.values())),
        ),
        Verdict(
            "at best, FedML-HE takes 340 s and 100 GB of memory",
            "; ".join(
                f"{name}: the same map in {number(ours[name])} s and {row['map_mb']:,.0f} MB more memory, "
                f"{published[name] / ours[name]:,.0f} times faster than as published"
                for name, row in models.items()
            )
            + "; its cost is no reason to rule it out",
            answer(all(cheap)),
        ),
    ]


ITEM = Item("fedml-he", "Cost of FedML-HE's sensitivity", "Appendix O", cells, draw, judge)
