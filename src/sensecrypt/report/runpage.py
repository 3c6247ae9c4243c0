"""The page of a run."""

from __future__ import annotations

import shlex
from pathlib import Path

from sensecrypt.report import charts, summary, tables
from sensecrypt.report.figures import Page, Section, Table
from sensecrypt.report.folder import Seen
from sensecrypt.report.words import count

_NONE_YET = "No round is finished yet."


def run_page(seen: Seen) -> Page:
    """The page of a run's folder."""
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
        status=_status(seen),
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
    """The page of a watched folder without a run."""
    text = f"No run is in {path} yet. This page fills as soon as one starts there."
    return Page("Waiting for a run", str(path), "waiting", "waiting", findings=[text])


def broken_page(path: Path, problem: str) -> Page:
    """The page of a watched folder that cannot be shown."""
    return Page("Nothing to show", str(path), "failed", "cannot be read", warning=problem)


def _status(seen: Seen) -> str:
    rounds = f"{seen.rounds} of {count(seen.outcome.config.training.rounds, 'round')}"
    if seen.state == "finished":
        return f"finished, {count(seen.rounds, 'round')}"
    return f"failed after {rounds}" if seen.state == "failed" else f"{rounds}: running, or interrupted"


def _warning(seen: Seen) -> str:
    if seen.failure:
        return f"The run failed: {seen.failure}"
    if seen.outcome.config.encryption.crypto == "calibrated":
        return "Calibrated run: NOTHING was really encrypted; the measured cost of encryption is charged."
    return ""


def _note(seen: Seen) -> str:
    if seen.outcome.config.problem.dataset == "own":
        return (
            "The run had a model and data of its own: call sensecrypt.federate(model, clients, …) with these settings."
        )
    return (
        "This repeats the fleet's run on one machine, with the same models."
        if seen.fleet
        else "Gives the same models on any machine."
    )


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
    text = "A client's accuracy: its cluster's model on test data with the client's class distribution."
    if seen.outcome.config.groups.clustering != "none":
        text = (
            "Before the first round, each client sends a sketch of its sensitivities; clients with similar sketches "
            f"form a cluster. {text} The map shows the sketches in two dimensions; its axes have no unit."
        )
    drawn = [charts.accuracy_chart(known["accuracy"])] if "accuracy" in known else []
    drawn += [charts.map_chart(known["map"])] if "map" in known else []
    missing = [] if "accuracy" in known else [_no_accuracy(seen)]
    missing += [] if "map" in known else [_no_map(seen)]
    return Section("clusters", "Accuracy and clusters", text, drawn, " ".join(missing))


def _no_accuracy(seen: Seen) -> str:
    return "Clients of a fleet report their accuracy when they fetch the next model." if seen.fleet else _NONE_YET


def _no_map(seen: Seen) -> str:
    if seen.outcome.config.groups.clustering == "none":
        return "Clustering is off: all clients train one model, and there is no map of them."
    if not seen.outcome.log:
        return ""
    return "For a map of the clients, run again with this version, or with --set messages=keep."


def _timeline(known: dict[str, Table]) -> Section:
    text = (
        "Device time: work measured on one core of this machine, divided by the device's speed; bytes divided by its "
        "bandwidth. A round ends when the slowest client has its model."
    )
    if "timeline" not in known:
        return Section("time", "Time of a round", text, missing=_NONE_YET)
    return Section("time", "Time of a round", text, [charts.timeline_chart(known["timeline"])])


def _shares(known: dict[str, Table]) -> Section:
    text = "Each client encrypts what its device can afford, the most sensitive parameters first."
    if "clients" not in known:
        return Section("protection", "Protection", text, missing=_NONE_YET)
    shares = charts.share_chart(
        known["clients"],
        "encrypted",
        "Encrypted parameters",
        "A cell for each client and round: its colour shows the encrypted share of the parameters.",
    )
    covered = charts.share_chart(
        known["clients"],
        "covered",
        "Covered sensitivity",
        "A cell for each client and round: its colour shows the share of the sensitivity that is encrypted.",
    )
    return Section("protection", "Protection", text, [shares, covered])


def _layers(seen: Seen, known: dict[str, Table]) -> Section:
    text = "Where in the model the encrypted parameters are. Known only in runs on one machine."
    if "layers" in known:
        return Section("layers", "Layers", text, [charts.layer_chart(known["layers"])])
    missing = "The folder has no counts by layer: no round is finished, or an older version wrote it."
    if seen.fleet:
        missing = "Unknown in a fleet: clients do not report it, because the aggregator could infer the secret order."
    return Section("layers", "Layers", text, missing=missing)


def _traffic(known: dict[str, Table]) -> Section:
    text = "Up: model updates, and scores in rounds that refresh the importance order. Down: models and orders."
    if "traffic" not in known:
        return Section("traffic", "Communication", text, missing=_NONE_YET)
    return Section("traffic", "Communication", text, [charts.traffic_chart()])


def _attacks(seen: Seen, known: dict[str, Table]) -> Section:
    text = "Labels that an adversary finds from the messages it received, next to guessing (prior)."
    if "attacks" in known and any(field.name == "irec" for field in known["attacks"].fields):
        return Section("attacks", "Attacks", text, [charts.attack_chart(known["attacks"])])
    where, target = shlex.quote(str(seen.path)), shlex.quote(str(seen.path / "attack-client-0.json"))
    missing = (
        "No attack is saved here. Run with --set messages=keep, then: "
        f"sensecrypt attack --run {where} --client 0 --json > {target}"
    )
    if seen.fleet:
        missing = "An attack needs all messages, which only a run on one machine keeps: --set messages=keep."
    return Section("attacks", "Attacks", text, missing=missing)
