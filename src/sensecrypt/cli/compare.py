"""`sensecrypt compare`: the comparison methods side by side, on uneven devices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sensecrypt.cli.again import command_line
from sensecrypt.cli.needs import needs
from sensecrypt.cli.places import new_folder
from sensecrypt.cli.report import report_at_end
from sensecrypt.cli.run import choose_dataset, parse_settings
from sensecrypt.cli.tables import WIDTH, show_table
from sensecrypt.config import PRESETS
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.compare.scenarios import SCENARIOS, scenario_settings
from sensecrypt.methods import parse_methods
from sensecrypt.report.words import count, seconds

DEFAULT_POLICIES = "plaintext,full,maskcrypt@paper,sensecrypt@paper,sensecrypt,sensecrypt+profile=paillier-2048"


@click.command()
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), default="system", show_default=True)
@click.option(
    "--policies",
    default=DEFAULT_POLICIES,
    show_default=True,
    help="Methods: policy[@preset][+key=value]..., separated by commas. `full` is the paper's Baseline.",
)
@click.option("--preset", type=click.Choice(list(PRESETS)), default="default", show_default=True, help="Without an @.")
@click.option("--dataset", help="As in `sensecrypt run`.  [default: digits]")
@click.option("--rounds", type=int, help="[default: the scenario's]")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a setting of all methods; repeatable."
)
@click.option(
    "--crypto",
    type=click.Choice(["auto", "real", "calibrated"]),
    default="auto",
    show_default=True,
    help="Calibrated: charge the measured cost instead of encrypting. Auto: where a ciphertext holds one value.",
)
@click.option(
    "--match-union/--own-ratio",
    default=True,
    show_default=True,
    help="The paper's fairness rule: MaskCrypt's mask as large as the union of SenseCrypt's.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="[default: runs/compare-TIME]")
@click.option("--resume", is_flag=True, help="Continue the comparison in --out.")
@click.option("--no-report", is_flag=True, help="Leave out report.html, the page of the comparison.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@needs("lab")
@click.pass_context
def compare(
    ctx: click.Context,
    scenario: str,
    policies: str,
    preset: str,
    dataset: str | None,
    rounds: int | None,
    changes: tuple[str, ...],
    crypto: str,
    match_union: bool,
    out: Path | None,
    resume: bool,
    no_report: bool,
    as_json: bool,
) -> None:
    """Compare methods by time, traffic, accuracy and protection.

    Time is device time: measured work divided by the devices' speed, bytes divided by their bandwidth. Under the preset
    `paper`, encryption is charged at python-paillier's measured cost; our own cost is shown below the table. The folder
    gets every run, compare.json, five plots and report.html.
    """
    if resume and out is None:
        raise InvalidInput("--resume", "continues a comparison", "give it --out, the comparison's folder")
    methods = parse_methods(policies, preset)
    explicit = parse_settings(changes, None) | ({} if rounds is None else {"rounds": rounds})
    settings = scenario_settings(scenario, choose_dataset(dataset, explicit), explicit)
    name = datetime.now().strftime("compare-%Y-%m-%d-%H%M%S")
    from sensecrypt.lab.compare.comparison import compare as play  # loads PyTorch: only once the settings are good
    from sensecrypt.lab.compare.comparison import has_begun
    from sensecrypt.lab.compare.plots import draw

    folder = out if out is not None and (resume or has_begun(out)) else new_folder(out, name)
    if resume and not has_begun(folder):
        raise InvalidInput(str(folder), "holds no comparison", "check the path, or start one without --resume")
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"))
    shown = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True, auto_refresh=False)
    with shown as progress:
        bar = progress.add_task("starting", total=1)

        def on_step(name: str, done: int, total: int) -> None:
            progress.update(bar, description=name, completed=done, total=total, refresh=True)

        try:
            report = play(
                scenario,
                methods,
                settings,
                folder,
                crypto=crypto,
                match_union=match_union,
                resume=resume,
                on_step=on_step,
                command=command_line(ctx),
            )
        except KeyboardInterrupt:
            again = command_line(ctx, "--out", str(folder), "--resume")
            hint = f"continue with: {again}" if has_begun(folder) else "nothing was written"
            raise click.ClickException(f"interrupted; {hint}") from None
    draw(report, folder)
    if as_json:
        click.echo(json.dumps(report))
    else:
        _show(report, folder)
    if not no_report:
        report_at_end(folder, quiet=as_json)


def _show(report: Mapping[str, Any], folder: Path) -> None:
    columns = ("method", "device time", "waiting", "MB up", "MB down", "accuracy", "encrypted")
    lines = [
        (
            f"{row['name']}{'*' if row['crypto'] == 'calibrated' else ''}",
            seconds(row["device_seconds"]),
            f"{row['straggler_share']:.0%}",
            f"{row['bytes_up'] / 1e6:.1f}",
            f"{row['bytes_down'] / 1e6:.1f}",
            f"{row['accuracy_mean']:.1%}",
            f"{row['encrypted_share']:.1%}",
        )
        for row in report["rows"]
    ]
    what = SCENARIOS[report["scenario"]].what
    show_table(
        f"{report['scenario']}: {what}; {report['dataset']}, {count(report['rounds'], 'round')}",
        columns,
        lines,
        left=("method",),
    )
    kinds = ", ".join(dict.fromkeys(report["devices"]))
    notes = [
        f"Devices: {kinds}; server of {report['server_cpus']:g} CPUs. Device time: all rounds and set-up, on "
        "the devices, not on this machine. Waiting: for slower clients. MB: all clients, all rounds. Accuracy: "
        "after the last round, mean of the clients. Encrypted: mean of all rounds.",
    ]
    if any(row["crypto"] == "calibrated" for row in report["rows"]):
        notes.append("*: calibrated: not really encrypted; the measured cost is charged.")
    charged = [row for row in report["rows"] if row["device_seconds_ours"] is not None]
    if charged:
        ours = "; ".join(f"{row['name']} {seconds(row['device_seconds_ours'])}" for row in charged)
        notes.append(f"Charged at python-paillier's cost; at ours: {ours}.")
    notes += [
        f"{row['name']}: up to {seconds(row['ahead_seconds'])} of a client's idle time per round are not charged."
        for row in report["rows"]
        if row["ahead_seconds"]
    ]
    click.echo()
    for note in notes:
        click.echo(click.wrap_text(note.replace("\N{NO-BREAK SPACE}", " "), WIDTH, "", "  "))
    click.echo(f"folder: {folder}")
