"""Appendix L: how long does each step of a round take?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sensecrypt.algo.clustering import cluster_clients
from sensecrypt.client.problem import configured_problem
from sensecrypt.config import make_config
from sensecrypt.lab.bench.clustering import groups
from sensecrypt.lab.bench.measure import median_seconds
from sensecrypt.lab.bench.stock import stock_cost_model
from sensecrypt.lab.drawing import Figure, log_axis, number, sheet
from sensecrypt.lab.experiments.charts import ranges
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import Range
from sensecrypt.records import ClientRecord, ServerRecord, servers_of
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.calibration import measure_cost_model
from sensecrypt.transports.local.result import Result
from sensecrypt.transports.local.run import run_local

PAPER: dict[str, Range] = {  # least, mean, largest
    "training": (7.1, 7.4, 7.7),
    "sensitivity": (0.03, 0.1, 0.15),
    "selection": (11.8, 13.2, 17.7),
    "encryption": (79.7, 87.3, 103.8),
    "decryption": (24.8, 56.8, 86.4),
    "aggregation": (87.9, 87.9, 87.9),
    "clustering": (0.002, 0.002, 0.002),
}
CLIENT_STEPS = ("training", "sensitivity", "selection", "encryption", "decryption")
STOCK, OURS = "preset paper, python-paillier", "preset default, ours"
FLEET = 20


def cells(spec: Spec) -> list[Cell]:
    """Both presets, and clustering."""
    each = spec["clients"] * spec["rounds"]
    return [
        Cell("paper", 10 + 1.6 * each, partial(_run, spec, "paper")),
        Cell("default", 12 + 2.7 * each, partial(_run, spec, "default")),
        Cell("clustering", 2, partial(_clustering, spec)),
    ]


def _run(spec: Spec, preset: str, folder: Path) -> list[Row]:
    """A round of some of 20 clients, with the times that a run records on one core."""
    settings: dict[str, Any] = {
        "dataset": spec["dataset"],
        "partition": "iid",
        "clients": FLEET,
        "rounds": spec["rounds"],
        "local_epochs": spec["local_epochs"],
        "learning_rate": 0.01,  # AlexNet diverges with larger ones
        "seed": spec["seed"],
        "preset": preset,
        "key_mode": "shared-key" if preset == "paper" else "dkms",  # Algorithm 1: every client decrypts
        "crypto": "calibrated" if preset == "paper" else "real",
        "B": 2.0,
        "C": 0.5,
        "cpus": [[32]],
        "bandwidths": [[50]],
    }
    whole = configured_problem(make_config(settings))
    images, labels = whole.test
    few = replace(whole, clients=whole.clients[: spec["clients"]], test=(images[:500], labels[:500]))
    config = make_config(settings | {"clients": spec["clients"]})
    measure = partial(measure_cost_model, config.encryption.profile, shared_key=True, ahead=False)
    cost_model = measure() if preset == "paper" else None
    run = RunFolder(folder / preset)
    result = run_local(config, run, problem=few, resume=run.exists(), cost_model=cost_model)
    return step_rows(result, preset)


def step_rows(result: Result, preset: str) -> list[Row]:
    """One row per step, client and round; for preset paper, at python-paillier's cost."""
    side = STOCK if preset == "paper" else OURS
    stock = stock_cost_model() if preset == "paper" else None
    log = [stock.apply(record) if stock else record for record in result.log if record.round >= 0]
    rows: list[Row] = []

    def add(step: str, client: int | None, seconds: float, share: float | None = None) -> None:
        rows.append({"side": side, "step": step, "client": client, "seconds": seconds, "share": share})

    scale = FLEET / result.config.problem.clients
    unions = {(record.round, record.cluster): record.union_share for record in servers_of(log)}
    for record in log:
        if record.release_seconds is not None:  # by the clients where they share the key, else by the key server
            client = record.client + 1 if isinstance(record, ClientRecord) else None
            releasing = record.release_seconds + (record.decrypt_seconds or 0.0)
            add("decryption", client, releasing, unions[record.round, record.cluster])
        if isinstance(record, ServerRecord):
            uploads = (record.aggregate_seconds, record.add_seconds, record.multiply_seconds)
            adding = sum(each or 0.0 for each in uploads)
            add("aggregation", None, scale * adding + (record.add_plain_seconds or 0.0))
        elif record.counts:
            client = record.client + 1
            add("training", client, record.train_seconds or 0.0)
            add("sensitivity", client, record.sensitivity_seconds or 0.0)
            add("selection", client, record.select_seconds or 0.0)
            protection = (record.protect_seconds or 0.0) + (record.encrypt_seconds or 0.0)
            add("encryption", client, protection, record.encrypted_share)
    return rows


def _clustering(spec: Spec, _folder: Path) -> list[Row]:
    sketches, _ = groups(FLEET, spec["seed"])
    seconds = median_seconds(lambda: cluster_clients(sketches, random_state=0), repeats=9)
    return [{"side": OURS, "step": "clustering", "client": None, "seconds": seconds, "share": None}]


def draw(rows: Rows) -> Figure:
    """Every step on a logarithmic scale: least, median, largest."""
    figure, [axes] = sheet("Seconds per client and round (one core; bars: median)", panels=1, size=(11, 5))
    series: dict[str, list[Range]] = {"the paper": list(PAPER.values())}
    for side in (STOCK, OURS):
        series[side] = [_range(rows, side, step) for step in PAPER]
    ranges(axes, list(PAPER), series, ylabel="seconds")
    log_axis(axes, "y", [value for values in series.values() for each in values for value in each])
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The statements about the table, at python-paillier's cost; then the times of our schemes."""
    stock, ours = ({step: _range(rows, side, step)[1] for step in PAPER} for side in (STOCK, OURS))
    share, own = (
        median(row["share"] for row in rows if row["side"] == side and row["step"] == "encryption")
        for side in (STOCK, OURS)
    )
    order = sorted(CLIENT_STEPS, key=lambda step: -stock[step])
    client = sum(stock[step] for step in CLIENT_STEPS)
    times = {step: f"{number(stock[step])} s" for step in PAPER}
    heavy = [stock[step] / client for step in ("training", "decryption")]
    multiple = stock["aggregation"] / stock["encryption"]
    faster = {step: stock[step] / ours[step] for step in ("encryption", "decryption")}
    return [
        Verdict(
            "encryption (79.7-103.8 s) and optimisation (11.8-17.7 s) take most of a client's time",
            f"at python-paillier's cost and {share:.0%} encrypted: "
            + ", ".join(f"{step} {times[step]}" for step in order)
            + "; selection needs no solver; in the paper's own table decryption comes second",
            graded(set(order[:2]) == {"encryption", "selection"}, order[0] == "encryption"),
        ),
        Verdict(
            "training and decryption also contribute significantly (7.4 s and 56.8 s of 165)",
            f"{heavy[0]:.1%} and {heavy[1]:.1%} of a client's time",
            graded(min(heavy) > 0.04, heavy[1] > 0.04),
        ),
        Verdict(
            "sensitivity is very fast (0.03-0.15 s)",
            f"{times['sensitivity']} over all samples, {number(ours['sensitivity'])} s over 512 of them (default); "
            f"training {times['training']}",
            graded(stock["sensitivity"] < 0.15, stock["sensitivity"] < stock["training"]),
        ),
        Verdict(
            "aggregation on the server (87.9 s) is comparable with encryption on a client",
            f"{times['aggregation']} against {times['encryption']}: {multiple:.2f} times, for {FLEET} uploads",
            graded(0.5 < multiple < 2),
        ),
        Verdict(
            "clustering is negligible (0.002 s, once)",
            f"{number(ours['clustering'])} s for {FLEET} sketches, all merges of their clusters scored",
            graded(ours["clustering"] < 0.01 * client),
        ),
        Verdict(
            "solving the selection problem takes 13.2 s",
            f"the exact optimum in {number(1e3 * stock['selection'])} ms a parameter at a time, "
            f"{number(1e3 * ours['selection'])} ms along the shared order",
            answer(max(stock["selection"], ours["selection"]) < 1),
        ),
        Verdict(
            "encryption takes 87.3 s, decryption 56.8 s, aggregation 87.9 s",
            f"with {own:.0%} encrypted, ours on one core: {number(ours['encryption'])} s, "
            f"{number(ours['decryption'])} s, {number(ours['aggregation'])} s ({FLEET} uploads); against "
            f"python-paillier at {share:.0%}: {faster['encryption']:,.0f} and {faster['decryption']:,.0f} times faster",
            answer(min(faster.values()) > 2),
        ),
    ]


def _range(rows: Rows, side: str, step: str) -> Range:
    """Least, median and largest; clustering is the same for both presets."""
    own = [row["seconds"] for row in rows if row["step"] == step and (row["side"] == side or step == "clustering")]
    return (min(own), float(np.median(own)), max(own))


ITEM = Item("components", "Time of each step of a round", "Appendix L", cells, draw, judge)
