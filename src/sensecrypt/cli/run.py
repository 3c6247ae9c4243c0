"""`sensecrypt run`: a whole federated training on this machine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sensecrypt.cli.needs import needs
from sensecrypt.cli.report import report_at_end
from sensecrypt.config import AUTO, PRESETS, Release, RunConfig, read_config
from sensecrypt.errors import InvalidInput
from sensecrypt.profiles import get_profile
from sensecrypt.report.words import count, noise_words

if TYPE_CHECKING:
    from sensecrypt.runs.outcome import Outcome
    from sensecrypt.transports.local.run import OnRound
    from sensecrypt.transports.local.transport import OnReply


_SETTING_UP = {"enrol": "enrolling", "rank": "importance order"}  # kinds of messages before the first round


@click.command()
@click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change one setting; may be repeated.")
@click.option("--preset", type=click.Choice(list(PRESETS)), help="What holds where nothing else is said.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The run's folder. [default: runs/TIME]")
@click.option("--resume", is_flag=True, help="Continue the run in --out from its last complete round.")
@click.option("--no-report", is_flag=True, help="Leave out report.html, the page of the run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@needs("torch")
def run(
    config_file: Path | None,
    changes: tuple[str, ...],
    preset: str | None,
    out: Path | None,
    resume: bool,
    no_report: bool,
    as_json: bool,
) -> None:
    """Train federated models with per-device selective encryption, end to end.

    With nothing: digits, 20 clients in 4 categories on 5 kinds of devices, the default preset. A run folder holds the
    configuration, a line of JSON for each client and round, a checkpoint, the final models, and report.html, a page to
    look at.
    """
    from sensecrypt.runs.folder import RunFolder

    folder = RunFolder(out or Path("runs") / datetime.now().strftime("%Y-%m-%d-%H%M%S"))
    if not resume and not folder.exists() and folder.path.is_dir() and any(folder.path.iterdir()):
        raise InvalidInput("--out", f"{folder.path} holds other things", "choose a new folder, or an empty one")
    if resume:
        if out is None or config_file is not None or preset is not None:
            fix = "give it --out, and --set for what is to change"
            raise InvalidInput("--resume", "continues the run of a folder, as it was configured", fix)
        config = folder.read_config()
        if changes:
            with folder.held():
                config = folder.change_config(parse_settings(changes, None))
    else:
        config = read_config(config_file, parse_settings(changes, preset))
    if config.machines.messages == "keep":
        click.echo("messages=keep: the folder will hold every client's weights and the secret order", err=True)
    if config.encryption.profile != AUTO and get_profile(config.encryption.profile).security_bits == 0:
        click.echo(f"profile={config.encryption.profile}: this encryption gives no security; it is for tests", err=True)
    if config.encryption.key_mode == "dkms" and config.release.min_contributors < Release.min_contributors:
        reads = (
            "a sum may be one client's model"
            if config.release.min_contributors == 1
            else "of two clients each reads the other"
        )
        click.echo(f"min_contributors={config.release.min_contributors}: {reads}", err=True)
    from sensecrypt.transports.local.run import run_local  # loads PyTorch: only once the settings are known to be good

    try:
        with progress(config) as (on_round, on_reply):
            result = run_local(config, folder, resume=resume, on_round=on_round, on_reply=on_reply)
    except KeyboardInterrupt:
        hint = (
            f"continue with: sensecrypt run --out {folder.path} --resume" if folder.exists() else "nothing was written"
        )
        raise click.ClickException(f"interrupted; {hint}") from None
    if as_json:
        click.echo(json.dumps(result.summary()))
    else:
        show(config, result, folder.path)
    if not no_report:
        report_at_end(folder.path, quiet=as_json)


def parse_settings(changes: tuple[str, ...], preset: str | None) -> dict[str, Any]:
    """What `--set` and `--preset` say."""
    settings: dict[str, Any] = {} if preset is None else {"preset": preset}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise InvalidInput("--set", f"is {change!r}", "write KEY=VALUE, such as --set rounds=5")
        settings[key.strip()] = value.strip()
    return settings


def choose_dataset(option: str | None, settings: dict[str, Any]) -> str:
    """What --dataset or --set dataset=… says; both may be given only if they agree."""
    told = settings.get("dataset")
    if option is not None and told is not None and option != told:
        raise InvalidInput("--dataset", f"is {option}, and --set dataset is {told}", "give one of them")
    return str(option or told or "digits")


@contextmanager
def progress(config: RunConfig) -> Iterator[tuple[OnRound, OnReply]]:
    """A bar on standard error: setting up, rounds, accuracy, encrypted share, time left."""
    columns = (
        TextColumn("{task.description}"),
        TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
        BarColumn(),
        TextColumn("accuracy {task.fields[accuracy]:.1%}  encrypted {task.fields[share]:.0%}"),
        TimeRemainingColumn(),
    )
    # Without a thread that redraws it: worker processes are forked while the bar is shown.
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as shown:
        bar = shown.add_task("setting up", total=config.training.rounds, accuracy=0.0, share=0.0)

        def on_round(number: int, accuracy: float, share: float) -> None:
            shown.update(bar, description="", completed=number + 1, accuracy=accuracy, share=share, refresh=True)

        def on_reply(kind: str, done: int, asked: int) -> None:
            if kind in _SETTING_UP:
                shown.update(bar, description=f"{_SETTING_UP[kind]}, {done} of {asked} clients,", refresh=True)

        yield on_round, on_reply


def show(config: RunConfig, result: Outcome, folder: Path) -> None:
    """The table at the end of a run."""
    console, summary = Console(width=max(100, Console().width)), result.summary()
    last = max((record.round for record in result.records), default=-1)
    protected = "" if config.encryption.crypto == "real" else "; calibrated: NOTHING was really encrypted"
    title = f"{config.problem.dataset}, {config.selection.policy}, after {count(last + 1, 'round')}{protected}"
    table = Table(title=title, title_justify="left")
    for column in ("client", "cluster", "accuracy", "budget", "encrypted", "coverage", "train", "encrypt", "kB up"):
        table.add_column(column, justify="right")
    for record in (record for record in result.records if record.round == last):
        row = [str(record.client), str(record.cluster), _percent(record.accuracy)]
        if record.left_out is not None:
            table.add_row(*row, escape(record.left_out))
            continue
        row += [f"{record.budget or 0.0:.2f}", f"{record.encrypted_share or 0.0:.0%}", f"{record.coverage or 0.0:.0%}"]
        row += [f"{1e3 * (seconds or 0.0):.0f} ms" for seconds in (record.train_seconds, record.encrypt_seconds)]
        table.add_row(*row, f"{(record.bytes_up or 0) / 1e3:.0f}")
    console.print(table)
    console.print(_clusters(config, result), soft_wrap=True)
    console.print(
        f"mean accuracy {_percent(summary['accuracy'])}, "
        f"{summary['encrypted_share']:.0%} encrypted, {summary['bytes_up'] / 1e6:.1f} MB up, "
        f"{summary['bytes_down'] / 1e6:.1f} MB down, {summary['device_seconds']:.3g} s on the devices, "
        f"{summary['wall_seconds']:.1f} s here; in {folder}",
        soft_wrap=True,
    )
    if summary["why_profile"]:
        console.print(f"profile {escape(summary['why_profile'])}", soft_wrap=True)
    if summary["sensitivity_noise"] is not None:
        console.print(noise_words(summary["sensitivity_noise"]), soft_wrap=True)


def _clusters(config: RunConfig, result: Outcome) -> str:
    """How many clusters there are, and why; that clustering was to no effect is said in so many words."""
    models = len(result.model_sha256)
    for_all = ", all clients train one model" if models == 1 and config.groups.clustering != "none" else ""
    return escape(f"{count(models, 'cluster')}{for_all}: {result.why_clusters}")


def _percent(accuracy: float | None) -> str:
    """An accuracy, if it was told."""
    return "unknown" if accuracy is None or math.isnan(accuracy) else f"{accuracy:.1%}"
