"""`sensecrypt demo`: the idea on one screen, measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from sensecrypt.cli.again import command_line
from sensecrypt.cli.needs import needs
from sensecrypt.cli.places import new_folder
from sensecrypt.cli.report import report_at_end
from sensecrypt.cli.status import shown_status
from sensecrypt.cli.tables import WIDTH, show_table
from sensecrypt.devices import DEVICES, PROCESSORS

ADVERSARIES = ("zero-fill", "sensitivity", "mask-only", "prototype", "collusion")
SEEDS = 5


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="[default: runs/demo-TIME]")
@click.option("--rounds", default=10, show_default=True, type=click.IntRange(1), help="Of each training.")
@click.option("--open/--no-open", "show", default=None, help="Open the report.  [default: if a person looks on]")
@click.option("--no-report", is_flag=True, help="Leave out report.html.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@needs("lab")
@click.pass_context
def demo(ctx: click.Context, out: Path | None, rounds: int, show: bool | None, no_report: bool, as_json: bool) -> None:
    """Train 20 clients on five kinds of devices, protected in five ways, and attack each.

    The data are handwritten digits that come with scikit-learn: nothing is downloaded. Times are those of the named
    devices: work measured here, divided by the device's speed, and bytes by its bandwidth. The paper's methods are
    charged at python-paillier's measured cost; SenseCrypt's encryption is real.
    """
    folder = new_folder(out, datetime.now().strftime("demo-%Y-%m-%d-%H%M%S"))
    from sensecrypt.lab.compare import advice  # loads PyTorch
    from sensecrypt.lab.compare.subject import named_subject
    from sensecrypt.lab.compare.wording import demo_findings

    with shown_status("starting") as update:
        report = advice.assess(
            (advice.PLAIN, advice.BASELINE, advice.PAPER, advice.BLINDING, advice.DEFAULT),
            named_subject("digits", ""),
            {"rounds": rounds, "clustering": "auto"},  # for every method, so that accuracies compare encryption alone
            folder,
            attacked=advice.Attacked(seeds=SEEDS, adversaries=ADVERSARIES),
            crypto="auto",
            command=command_line(ctx),
            findings=demo_findings,
            on_step=update,
        )
    if as_json:
        click.echo(json.dumps(report))
    else:
        show_screen(report)
    if not no_report:
        report_at_end(folder, quiet=as_json, show=show)


def show_screen(report: Mapping[str, Any]) -> None:
    """Two tables, and what they say."""
    from sensecrypt.lab.compare.wording import attack_cell, round_seconds, spoken

    rows = report["rows"]
    encrypting = [row for row in rows if row["encrypted_share"] > 0]
    show_table(
        f"{report['clients']} clients learn {report['dataset']}: share encrypted, and own time of a device per round",
        ("device", "processor", "MB/s", *(row["label"].replace(" (", "\n(") for row in encrypting)),
        [
            (name, PROCESSORS[name], f"{device.bandwidth:g}", *(_device(row, name) for row in encrypting))
            for name, device in DEVICES.items()
        ],
        left=("device", "processor"),
    )
    click.echo()
    show_table(
        f"For all: one round, server of {report['server_cpus']:g} CPUs included; attacks on a client's update",
        ("protection", "a round", "accuracy", "labels found", "by"),
        [
            (
                row["label"],
                spoken(round_seconds(row)),
                f"{row['accuracy_mean']:.0%}",
                f"{row['found']:.0%}",
                attack_cell(row),
            )
            for row in rows
        ],
        left=("protection", "by"),
    )
    click.echo()
    for sentence in report["findings"]:
        click.echo(click.wrap_text(sentence, WIDTH, "* ", "  "))


def _device(row: Mapping[str, Any], name: str) -> str:
    """Mean share and time of this kind of device in the last round."""
    from sensecrypt.lab.compare.wording import client_seconds, spoken

    own = [client for client in row["timeline"] if client["device"] == name]
    return f"{fmean(client['encrypted_share'] for client in own):.0%} {spoken(fmean(map(client_seconds, own))):>6}"
