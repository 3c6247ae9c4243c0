"""`sensecrypt compare`: the comparison methods side by side, on uneven devices."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sensecrypt.cli.needs import needs
from sensecrypt.cli.report import report_at_end
from sensecrypt.cli.run import choose_dataset, parse_settings
from sensecrypt.cli.tables import show_table
from sensecrypt.config import PRESETS
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.compare.scenarios import SCENARIOS, scenario_settings
from sensecrypt.methods import parse_methods

DEFAULT_POLICIES = "plaintext,full,maskcrypt@paper,sensecrypt@paper,sensecrypt,sensecrypt+profile=paillier-2048"


@click.command()
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), default="system", show_default=True)
@click.option(
    "--policies",
    default=DEFAULT_POLICIES,
    show_default=True,
    help="Who takes part: policy[@preset][+key=value]..., separated by commas. `full` is the paper's Baseline.",
)
@click.option("--preset", type=click.Choice(list(PRESETS)), default="default", show_default=True, help="Without an @.")
@click.option("--dataset", help="As in `sensecrypt run`.  [default: digits]")
@click.option("--rounds", type=int, help="[default: the scenario's]")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change one setting of all; may be repeated."
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
def compare(
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
    """Compare methods on time, traffic, accuracy and protection.

    Time is that of the clients' devices: measured work divided by their processors, bytes divided by their bandwidth.
    Under the preset `paper`, encryption is charged at python-paillier's measured cost; what ours costs stands beside.
    The folder holds every run, compare.json, five plots and report.html, a page to look at.
    """
    if resume and out is None:
        raise InvalidInput("--resume", "continues a comparison", "give it --out, the comparison's folder")
    methods = parse_methods(policies, preset)
    explicit = parse_settings(changes, None) | ({} if rounds is None else {"rounds": rounds})
    settings = scenario_settings(scenario, choose_dataset(dataset, explicit), explicit)
    folder = out or Path("runs") / datetime.now().strftime("compare-%Y-%m-%d-%H%M%S")
    from sensecrypt.lab.compare.comparison import compare as play  # loads PyTorch: only once the settings are good
    from sensecrypt.lab.compare.comparison import has_begun
    from sensecrypt.lab.compare.plots import draw

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
            )
        except KeyboardInterrupt:
            hint = f"repeat the command with --out {folder} --resume" if has_begun(folder) else "nothing was written"
            raise click.ClickException(f"interrupted; {hint}") from None
    draw(report, folder)
    if as_json:
        click.echo(json.dumps(report))
    else:
        _show(report, folder)
    if not no_report:
        report_at_end(folder, quiet=as_json)


def _show(report: dict[str, Any], folder: Path) -> None:
    title = (
        f"{report['scenario']}: {SCENARIOS[report['scenario']].what}; {report['dataset']}, {report['rounds']} rounds"
    )
    columns = (
        "method",
        "device s",
        "ours",
        "waiting",
        "MB up",
        "MB down",
        "accuracy",
        "encrypted",
        "covered",
        "crypto",
    )
    lines = [
        (
            row["name"],
            f"{row['device_seconds']:,.4g}",
            "" if row["device_seconds_ours"] is None else f"{row['device_seconds_ours']:,.4g}",
            f"{row['straggler_share']:.0%}",
            f"{row['bytes_up'] / 1e6:.1f}",
            f"{row['bytes_down'] / 1e6:.1f}",
            f"{row['accuracy_mean']:.1%} ({row['accuracy_min']:.0%}-{row['accuracy_max']:.0%})",
            f"{row['encrypted_share']:.1%}",
            f"{row['coverage']:.0%}",
            row["crypto"],
        )
        for row in report["rows"]
    ]
    show_table(title, columns, lines, left=("method",), width=140)
    click.echo(
        "device s: on the clients' devices, under preset paper at python-paillier's cost; ours: at our cost; waiting: "
        "for slower clients. "
        + "".join(
            f"{row['name']}: up to {row['ahead_seconds']:.2g} s of a client's idle time a round are not charged. "
            for row in report["rows"]
            if row["ahead_seconds"]
        )
        + f"In {folder}"
    )
