"""Our own: the cost of the three mask layouts and what they reveal, with equal budgets and devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean

from sensecrypt.lab.assess.recorded import recorded_rows
from sensecrypt.lab.drawing import Figure, colour_of, log_axis, number, sheet
from sensecrypt.lab.experiments.charts import bars
from sensecrypt.lab.experiments.comparing import compared, run_settings
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer
from sensecrypt.lab.experiments.picking import distinct, where
from sensecrypt.methods import parse_methods
from sensecrypt.models import DEFAULT_MODEL, build_model, get_vector
from sensecrypt.profiles import get_profile
from sensecrypt.records import ClientRecord, Played, only_played
from sensecrypt.runs.folder import RunFolder

LAYOUTS = {
    "individual": "sensecrypt+budget=paper+rest=plain+layout=individual+profile=paillier-2048-scalar",
    "blocks": "sensecrypt+budget=paper+rest=plain+layout=blocks",
    "prefix": "sensecrypt+budget=paper+rest=plain",
}
ALONE, TOGETHER = "aggregator", "aggregator+client"
ROLES = ((ALONE,), (ALONE, TOGETHER))  # an attacker with a member may also attack without its knowledge
NOTHING = 0.02  # of LnAcc above the prior that counts as nothing


def cells(spec: Spec) -> list[Cell]:
    """One run per layout."""
    return [Cell(name, spec["seconds"], partial(_measure, spec, name)) for name in LAYOUTS]


def _measure(spec: Spec, layout: str, folder: Path) -> list[Row]:
    settings = run_settings(spec, messages="keep")
    report = compared(spec["scenario"], spec["dataset"], [LAYOUTS[layout]], settings, folder, crypto=spec["crypto"])
    [method] = parse_methods(LAYOUTS[layout], "default")
    run = RunFolder(folder / method.slug)
    config = run.read_config()
    size = get_vector(build_model(DEFAULT_MODEL[config.problem.dataset], seed=0)).size
    blocks = -(-size // get_profile(config.encryption.profile).slots)
    records = [record for record in only_played(run.records()) if record.round >= 0]
    rows: list[Row] = [_record_row(record, blocks, report["rows"][0]["crypto"]) for record in records]
    for client in range(0, config.problem.clients, spec["every"]):
        for role in (ALONE, TOGETHER):
            found = recorded_rows(run, number=spec["attacked_round"], client=client, adversary=role)
            kept = ("adversary", "role", "share", "recovered", "attributed", "leacc", "lnacc", "irec", "distance")
            rows += [{"kind": "attack", "client": client, **{key: row[key] for key in kept}} for row in found]
    return [{"layout": layout, **row} for row in rows]


def _record_row(record: Played, blocks: int, crypto: str) -> Row:
    """The row of a client's upload or of a cluster's sum."""
    if isinstance(record, ClientRecord):
        return {
            "kind": "client",
            "round": record.round,
            "client": record.client,
            "encrypted_share": record.encrypted_share,
            "coverage": record.coverage,
            "budget": record.budget,
            "bytes_up": record.bytes_up,
            "ciphertexts": record.encrypted_blocks,
            "crypto": crypto,
        }
    under_covered, union = record.under_covered_blocks or 0, record.union_share or 0.0
    return {
        "kind": "sum",
        "round": record.round,
        "cluster": record.cluster,
        "union_share": union,
        "under_covered_blocks": under_covered,
        "shared": 1 - under_covered / max(round(union * blocks), 1),
    }


def _of(rows: Rows, layout: str, kind: str) -> Rows:
    return where(rows, layout=layout, kind=kind)


def _mean(rows: Rows, layout: str, kind: str, key: str) -> float:
    return fmean(row[key] for row in _of(rows, layout, kind))


def _recovered(rows: Rows, layout: str, of: Callable[[list[float]], float] = fmean) -> float:
    """The share of encrypted values that subtraction recovers, per attacked client, summarised by `of`."""
    together = {row["client"]: row["recovered"] for row in _of(rows, layout, "attack") if row["role"] == TOGETHER}
    return of(list(together.values()))


def _found(rows: Rows, layout: str, roles: tuple[str, ...]) -> tuple[float, str]:
    """The mean LnAcc of the strongest attack in any of the roles, and its name."""
    means = {}
    for role in roles:
        own = [row for row in _of(rows, layout, "attack") if row["role"] == role and row["adversary"] != "prior"]
        for name in distinct(own, "adversary"):
            words = name if role == ALONE or len(roles) == 1 else f"{name} with it"
            means[words] = fmean(row["lnacc"] for row in own if row["adversary"] == name)
    best = max(means, key=lambda name: means[name])
    return means[best], best


def _prior(rows: Rows) -> float:
    return fmean(row["lnacc"] for row in rows if row["kind"] == "attack" and row["adversary"] == "prior")


def draw(rows: Rows) -> Figure:
    """Costs above, what is revealed below."""
    names = [name for name in LAYOUTS if _of(rows, name, "client")]
    title = "Three mask layouts with the same budgets"
    figure, panels = sheet(title, panels=6, size=(10.5, 6.6), columns=3)
    single: list[tuple[str, str, Callable[[str], float], bool]] = [
        ("ciphertexts per client", "number", lambda name: _mean(rows, name, "client", "ciphertexts"), True),
        ("a client's upload", "MB", lambda name: _mean(rows, name, "client", "bytes_up") / 1e6, True),
        ("encrypted", "% of the parameters", lambda name: 100 * _mean(rows, name, "client", "encrypted_share"), False),
        ("blocks that too few encrypt", "% of the union", lambda n: 100 * (1 - _mean(rows, n, "sum", "shared")), False),
        ("recovered by subtraction", "% of a client's encrypted", lambda name: 100 * _recovered(rows, name), False),
    ]
    for axes, (heading, unit, value, logarithmic) in zip(panels, single, strict=False):
        values = [value(name) for name in names]
        if logarithmic:
            log_axis(axes, "y", values)
        else:
            axes.set_ylim(0, 1.15 * max(*values, 1.0))
        drawn = axes.bar(names, values, 0.6, color=[colour_of(place) for place in range(len(names))])
        axes.bar_label(drawn, [number(each) for each in values], fontsize=8, padding=1)
        axes.set(title=heading, ylabel=unit)
        axes.grid(axis="y")
    alone, together = ([_found(rows, name, roles)[0] for name in names] for roles in ROLES)
    labelled = {"aggregator alone": alone, "with a member": together}
    bars(panels[5], names, labelled, ylabel="LnAcc of the strongest attack")
    panels[5].axhline(_prior(rows), color="black", linestyle="--", linewidth=1.2, label="prior")
    panels[5].set(title="labels found", ylim=(-0.02, 1.32))
    panels[5].legend(fontsize=8, loc="upper center", ncols=2)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The savings of the prefix layout, and what it hides that the others reveal."""
    names = [name for name in LAYOUTS if _of(rows, name, "client")]
    keys = ("ciphertexts", "bytes_up", "encrypted_share", "coverage")
    sent, sizes, share, coverage = ({name: _mean(rows, name, "client", key) for name in names} for key in keys)
    shared = {name: _mean(rows, name, "sum", "shared") for name in names}
    few = {name: sum(row["under_covered_blocks"] for row in _of(rows, name, "sum")) for name in names}
    back = {name: _recovered(rows, name) for name in names}
    alone, together = ({name: _found(rows, name, roles) for name in names} for roles in ROLES)
    prior = _prior(rows)

    def each(words: Callable[[str], str]) -> str:
        return ", ".join(f"{name} {words(name)}" for name in names)

    return [
        Verdict(
            "does a prefix save ciphertexts?",
            each(lambda n: f"{number(sent[n])} ciphertexts, {number(sizes[n] / 1e6)} MB for {share[n]:.0%} encrypted"),
            answer(sent["prefix"] < sent["individual"] / 10),
        ),
        Verdict(
            "does one order for all cover as much of a client's sensitivity as its own blocks would?",
            each(lambda n: f"{coverage[n]:.1%}"),
            answer(coverage["prefix"] >= coverage["blocks"]),
        ),
        Verdict(
            "is every encrypted value encrypted by at least 3 clients?",
            each(lambda n: f"{shared[n]:.1%} of the union, {few[n]:,} under-covered blocks"),
            answer(few["prefix"] == 0),
        ),
        Verdict(
            "does an aggregator with one member recover nothing by subtraction?",
            each(lambda n: f"{back[n]:.1%} of a client's encrypted values, at most {_recovered(rows, n, max):.1%}"),
            answer(_recovered(rows, "prefix", max) == 0),
        ),
        Verdict(
            "can the aggregator alone only guess labels?",
            f"LnAcc, prior {prior:.2f}: " + each(lambda n: f"{alone[n][0]:.2f} ({alone[n][1]})"),
            answer(alone["prefix"][0] <= prior + NOTHING),
        ),
        Verdict(
            "can an aggregator with one member only guess labels, although a part is plain?",
            f"LnAcc, prior {prior:.2f}: " + each(lambda n: f"{together[n][0]:.2f} ({together[n][1]})"),
            answer(together["prefix"][0] <= prior + NOTHING),
        ),
    ]


ITEM = Item("layouts", "Three mask layouts: cost, coverage, what they reveal", "", cells, draw, judge)
