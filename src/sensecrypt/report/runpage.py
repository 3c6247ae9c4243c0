"""The page of a run."""

from __future__ import annotations

import shlex
from pathlib import Path

from sensecrypt.report import charts, summary, tables
from sensecrypt.report.figures import Page, Section, Table
from sensecrypt.report.folder import Seen
from sensecrypt.report.words import count

_NONE_YET = "No round is over yet."


def run_page(seen: Seen) -> Page:
    """Everything that a run's folder tells."""
    outcome, config = seen.outcome, seen.outcome.config
    times = outcome.times()
    drawn = {
        "accuracy": tables.accuracy_table(outcome),
        "timeline": tables.time_table(outcome, times),
        "clients": tables.client_table(outcome),
        "traffic": tables.traffic_table(outcome),
        "map": tables.map_table(seen),
        "layers": tables.layer_table(outcome),
        "attacks": tables.attack_table(seen.attacks),
    }
    known = {name: table for name, table in drawn.items() if table is not None and table.rows}
    problem, people = config.problem, count(config.problem.clients, "client")
    return Page(
        title=f"{config.selection.policy} on {problem.dataset}",
        subtitle=f"{people}, {problem.partition}, preset {config.preset}, {config.encryption.profile}",
        state=seen.state,
        told=_told(seen),
        warning=_warning(seen),
        cards=summary.cards(seen, times),
        findings=summary.findings(seen, times),
        sections=_sections(seen, known),
        tables=known,
        command=summary.command(config),
        note=_note(seen),
        settings=summary.settings(config),
    )


def waiting_page(path: Path) -> Page:
    """As long as there is no run in a folder that is watched."""
    text = f"No run is in {path} yet. This page fills as soon as one starts there."
    return Page("Waiting for a run", str(path), "waiting", "waiting", findings=[text])


def broken_page(path: Path, problem: str) -> Page:
    """What a watched folder holds cannot be shown."""
    return Page("Nothing to show", str(path), "failed", "cannot be read", warning=problem)


def _told(seen: Seen) -> str:
    rounds = f"{seen.rounds} of {count(seen.outcome.config.training.rounds, 'round')}"
    if seen.state == "over":
        return f"over, {count(seen.rounds, 'round')}"
    return f"failed after {rounds}" if seen.state == "failed" else f"{rounds}: going on, or interrupted"


def _warning(seen: Seen) -> str:
    if seen.failure:
        return f"The run failed: {seen.failure}"
    if seen.outcome.config.encryption.crypto == "calibrated":
        return "A calibrated run: NOTHING was really encrypted; what encryption would have cost is charged."
    return ""


def _note(seen: Seen) -> str:
    if seen.outcome.config.problem.dataset == "own":
        return "The run had a model and data of its own: call sensecrypt.federate with these settings."
    return "A fleet's run, on this machine: the same models." if seen.fleet else "The same models, whatever machine."


def _sections(seen: Seen, known: dict[str, Table]) -> list[Section]:
    return [
        _clusters(seen, known),
        _timeline(known),
        _shares(known),
        _layers(seen, known),
        _traffic(known),
        _attacks(seen, known),
    ]


def _clusters(seen: Seen, known: dict[str, Table]) -> Section:
    text = "A client's accuracy is that of its cluster's model on test data distributed as its own."
    if seen.outcome.config.groups.clustering != "none":
        text = (
            "Before the first round, clients describe their data by a sketch of their sensitivities, and those who are "
            f"alike train together. {text} The map flattens the sketches to two dimensions: near is alike, the axes "
            "have no unit."
        )
    drawn = [charts.accuracy_chart(known["accuracy"])] if "accuracy" in known else []
    drawn += [charts.map_chart(known["map"])] if "map" in known else []
    missing = [] if "accuracy" in known else [_no_accuracy(seen)]
    missing += [] if "map" in known else [_no_map(seen)]
    return Section("clusters", "Accuracy and clusters", text, drawn, " ".join(missing))


def _no_accuracy(seen: Seen) -> str:
    return "The clients of a fleet tell their accuracy when they fetch the next model." if seen.fleet else _NONE_YET


def _no_map(seen: Seen) -> str:
    if seen.outcome.config.groups.clustering == "none":
        return "Clustering is off: all clients train one model, and there is no map of them."
    if not seen.outcome.log:
        return ""
    return "For a map of the clients, run again with this version, or with --set messages=keep."


def _timeline(known: dict[str, Table]) -> Section:
    text = (
        "On the device clock: work measured on one core, divided by a device's processors, and bytes by its bandwidth. "
        "A round is over for nobody before the slowest client's upload has arrived."
    )
    if "timeline" not in known:
        return Section("time", "Time of a round", text, missing=_NONE_YET)
    return Section("time", "Time of a round", text, [charts.timeline_chart(known["timeline"])])


def _shares(known: dict[str, Table]) -> Section:
    text = (
        "Each client encrypts what its device can afford, the most sensitive parameters first: a small share of the "
        "parameters covers a large share of the sensitivity."
    )
    if "clients" not in known:
        return Section("protection", "Protection", text, missing=_NONE_YET)
    shares = charts.share_chart(
        known["clients"],
        "encrypted",
        "Encrypted parameters",
        "A cell for each client and round: its colour tells the encrypted share of the parameters.",
    )
    covered = charts.share_chart(
        known["clients"],
        "covered",
        "Covered sensitivity",
        "A cell for each client and round: its colour tells the share of the sensitivity that is encrypted.",
    )
    return Section("protection", "Protection", text, [shares, covered])


def _layers(seen: Seen, known: dict[str, Table]) -> Section:
    text = "Where in the model the encrypted parameters lie. Only whoever plays all parties on one machine can know."
    if "layers" in known:
        return Section("layers", "Layers", text, [charts.layer_chart(known["layers"])])
    missing = "The folder does not tell: it was written by a version that did not count by layer, or no round is over."
    if seen.fleet:
        missing = (
            "In a fleet nobody knows: clients do not tell the aggregator, who could learn the secret order from it."
        )
    return Section("layers", "Layers", text, missing=missing)


def _traffic(known: dict[str, Table]) -> Section:
    text = "Up: model updates, and the scores of rounds that make a new order. Down: models, and new orders."
    if "traffic" not in known:
        return Section("traffic", "Communication", text, missing=_NONE_YET)
    return Section("traffic", "Communication", text, [charts.traffic_chart()])


def _attacks(seen: Seen, known: dict[str, Table]) -> Section:
    text = "What an adversary found of a client's labels with what it really received, beside what guessing finds."
    if "attacks" in known and any(field.name == "irec" for field in known["attacks"].fields):
        return Section("attacks", "Attacks", text, [charts.attack_chart(known["attacks"])])
    where, target = shlex.quote(str(seen.path)), shlex.quote(str(seen.path / "attack-client-0.json"))
    missing = (
        "None are saved here. Run with --set messages=keep, then: "
        f"sensecrypt attack --run {where} --client 0 --json > {target}"
    )
    if seen.fleet:
        missing = (
            "An attack needs what every party received, which only a run on one machine keeps: --set messages=keep."
        )
    return Section("attacks", "Attacks", text, missing=missing)
