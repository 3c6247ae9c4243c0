"""`sensecrypt demo`: the idea on one screen, measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from sensecrypt.cli.needs import needs
from sensecrypt.cli.report import report_at_end
from sensecrypt.cli.status import shown_status
from sensecrypt.cli.tables import show_table
from sensecrypt.devices import DEVICES
from sensecrypt.errors import InvalidInput

_STEPS = ("train", "select", "encrypt", "upload", "download", "decrypt")
_WIDTH = 80
_BY = {
    "zero-fill": "reading the update",
    "sensitivity": "reading sensitivities",
    "mask-only": "looking at the mask",
    "prototype": "comparing with public data",
    "collusion": "help of one client",
}

Row = Mapping[str, Any]


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="[default: runs/demo-TIME]")
@click.option("--rounds", default=10, show_default=True, type=click.IntRange(1), help="Of each training.")
@click.option("--no-report", is_flag=True, help="Leave out report.html.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@needs("lab")
def demo(out: Path | None, rounds: int, no_report: bool, as_json: bool) -> None:
    """Train 20 clients on five kinds of devices, protected in five ways, and attack each.

    The data are handwritten digits that come with scikit-learn: nothing is downloaded. Times are those of the named
    devices: work measured here, divided by the device's speed, and bytes by its line. Methods of the paper are charged
    at python-paillier's measured cost; SenseCrypt's encryption is real.
    """
    folder = out or Path("runs") / datetime.now().strftime("demo-%Y-%m-%d-%H%M%S")
    if folder.is_dir() and any(folder.iterdir()):
        raise InvalidInput("--out", f"{folder} holds other things", "choose a new folder, or an empty one")
    from sensecrypt.lab.compare import advice  # loads PyTorch
    from sensecrypt.lab.compare.subject import named_subject

    candidates = (advice.PLAIN, advice.BASELINE, advice.PAPER, advice.BLINDING, advice.DEFAULT)
    with shown_status("starting") as update:
        report = advice.assess(
            candidates,
            named_subject("digits", ""),
            {"rounds": rounds, "clustering": "auto"},  # for every method, so that accuracies compare encryption alone
            folder,
            attacked=advice.Attacked(seeds=5, adversaries=tuple(_BY)),
            crypto="auto",
            on_step=update,
        )
    if as_json:
        click.echo(json.dumps(report))
    else:
        show(report)
    if not no_report:
        report_at_end(folder, quiet=as_json)


def show(report: Mapping[str, Any]) -> None:
    """The screen."""
    rows = {row["label"]: row for row in report["rows"]}
    encrypting = [row for row in rows.values() if row["encrypted_share"] > 0]
    click.echo(f"\n{report['clients']} clients on five kinds of devices train together on {report['dataset']}.\n")
    show_table(
        "Each device: how much of its update it encrypts, and its time per round",
        ("device", "MB/s", *(row["label"] for row in encrypting)),
        [
            (name, f"{device.bandwidth:g}", *(_device(row, name) for row in encrypting))
            for name, device in DEVICES.items()
        ],
        left=("device",),
        width=_WIDTH,
    )
    click.echo()
    show_table(
        "What that means for everybody",
        ("protection", "a round", "accuracy", "labels found", "by"),
        [_method(row) for row in rows.values()],
        left=("protection", "by"),
        width=_WIDTH,
    )
    click.echo()
    for sentence in sentences(rows):
        click.echo(click.wrap_text(sentence, _WIDTH, "* ", "  "))
    click.echo()


def sentences(rows: Mapping[str, Row]) -> Sequence[str]:
    """What the tables say, in words."""
    plain, baseline, paper, blinding, ours = rows.values()
    slowest = max(baseline["timeline"], key=lambda client: sum(client[step] for step in _STEPS))
    guess = f"guessing finds {plain['guessing']:.0%}"
    return (
        f"No protection: the aggregator finds {plain['found']:.0%} of the labels in a client's data; {guess}.",
        f"Everything, one value per Paillier ciphertext: the {_spoken(slowest['device'])} makes everybody wait "
        f"{_seconds(_round(baseline))} instead of {_seconds(_round(plain))}.",
        f"Selective, as the paper: {_round(baseline) / _round(paper):.0f} times faster, because weak devices encrypt "
        f"less, down to {paper['weakest_share']:.0%}; the rest is in the clear, and {_BY[paper['strongest']]} finds "
        f"{paper['found']:.0%}.",
        f"Blinding hides uploads for {_seconds(_round(blinding))} a round, as long as nobody records what clients send "
        "to the key server.",
        f"SenseCrypt encrypts {ours['encrypted_share']:.0%} by ring-LWE, blinds what a device cannot afford, and takes "
        f"{_seconds(_round(ours))}; attackers {_outcome(ours)}.",
    )


def _outcome(row: Row) -> str:
    if row["verdict"] == "guesses":
        return f"find {row['found']:.0%}, what guessing finds"
    return f"find {row['found']:.0%}; guessing finds {row['guessing']:.0%}"


def _device(row: Row, name: str) -> str:
    """The mean of this kind of device in the last round."""
    own = [client for client in row["timeline"] if client["device"] == name]
    seconds = fmean(sum(client[step] for step in _STEPS) for client in own)
    return f"{fmean(client['encrypted_share'] for client in own):4.0%} {_seconds(seconds):>7}"


def _method(row: Row) -> tuple[str, ...]:
    found = "guessing" if row["verdict"] == "guesses" else _BY[row["strongest"]]
    return (row["label"], _seconds(_round(row)), f"{row['accuracy_mean']:.0%}", f"{row['found']:.0%}", found)


def _spoken(name: str) -> str:
    return name.replace("-", " ")


def _round(row: Row) -> float:
    """Seconds of the last round."""
    return float(row["rounds"][-1]["seconds"])


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{1e3 * value:.0f} ms"
