"""`sensecrypt run`: a whole federated training on this machine."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sensecrypt.cli.needs import needs
from sensecrypt.cli.places import new_folder
from sensecrypt.cli.report import report_at_end
from sensecrypt.cli.tables import WIDTH, show_table
from sensecrypt.config import AUTO, PRESETS, Release, RunConfig, read_config
from sensecrypt.errors import InvalidInput
from sensecrypt.profiles import get_profile
from sensecrypt.report.words import count, megabytes, noise_words, seconds

if TYPE_CHECKING:
    from sensecrypt.runs.outcome import Outcome
    from sensecrypt.transports.local.run import OnRound
    from sensecrypt.transports.local.transport import OnReply


_SETTING_UP = {"enrol": "enrolling", "rank": "importance order"}  # kinds of messages before the first round


@click.command()
@click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting (see `sensecrypt settings`); repeatable.",
)
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Values of the settings that are not given.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The run's folder.  [default: runs/TIME]")
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

    Without options: digits, 20 clients in 4 categories on 5 kinds of devices, the default preset. The run's folder
    gets the configuration, one line of JSON per client and round, a checkpoint, the final models, and report.html.
    """
    from sensecrypt.runs.folder import RunFolder

    if resume:
        if out is None or config_file is not None or preset is not None:
            fix = "give --out, and --set for changes"
            raise InvalidInput("--resume", "continues the run of a folder, as configured there", fix)
        folder = RunFolder(out)
        config = folder.read_config()
        if changes:
            with folder.held():
                config = folder.change_config(parse_settings(changes, None))
    else:
        name = datetime.now().strftime("%Y-%m-%d-%H%M%S")
        folder = RunFolder(out if out is not None and RunFolder(out).exists() else new_folder(out, name))
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
        again = shlex.join(["sensecrypt", "run", "--out", str(folder.path), "--resume"])
        hint = f"continue with: {again}" if folder.exists() else "nothing was written"
        raise click.ClickException(f"interrupted; {hint}") from None
    if as_json:
        click.echo(json.dumps(result.summary()))
    else:
        show(config, result, folder.path)
    if not no_report:
        report_at_end(folder.path, quiet=as_json)


def parse_settings(changes: tuple[str, ...], preset: str | None) -> dict[str, Any]:
    """Settings from `--set` and `--preset`."""
    settings: dict[str, Any] = {} if preset is None else {"preset": preset}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise InvalidInput("--set", f"is {change!r}", "write KEY=VALUE, such as --set rounds=5")
        settings[key.strip()] = value.strip()
    return settings


def choose_dataset(option: str | None, settings: dict[str, Any]) -> str:
    """The data set from --dataset or --set dataset=…; both may be given only if they agree."""
    named = settings.get("dataset")
    if option is not None and named is not None and option != named:
        raise InvalidInput("--dataset", f"is {option}, and --set dataset is {named}", "give one of them")
    return str(option or named or "digits")


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
    """The last round client by client, then the whole run."""
    summary, times = result.summary(), result.times()
    last = max((record.round for record in result.records), default=-1)
    records = [record for record in result.records if record.round == last]
    steps = next((each.clients for each in times if each.number == last), {})
    if config.encryption.crypto != "real":
        click.secho("Calibrated: NOTHING was really encrypted; its measured cost is charged.", bold=True)
    columns = ("client", "device", "cluster", "accuracy", "encrypted", "covered", "device\ntime", "kB up")
    rows = [
        (
            str(record.client),
            config.device_name(record.client, last),
            str(record.cluster),
            _percent(record.accuracy),
            *(
                (
                    f"{record.encrypted_share or 0.0:.0%}",
                    f"{record.coverage or 0.0:.0%}",
                    seconds(steps[record.client].busy),
                    f"{(record.bytes_up or 0) / 1e3:.0f}",
                )
                if record.client in steps
                else ("FAILED", "", "", "")
            ),
        )
        for record in records
    ]
    show_table(
        f"{config.problem.dataset}, policy {config.selection.policy}: round {last + 1} of {config.training.rounds}",
        columns,
        rows,
        left=("device",),
    )
    click.echo()
    lines = [f"Client {each.client} FAILED in this round: {each.left_out}." for each in records if each.left_out]
    lines += [
        _clusters(config, result),
        f"Accuracy after the last round: {_percent(summary['accuracy'])}, mean of the clients. Encrypted: "
        f"{summary['encrypted_share']:.0%}, mean of all rounds.",
        f"All rounds: {megabytes(summary['bytes_up'])} up, {megabytes(summary['bytes_down'])} down; device time "
        f"{seconds(summary['device_seconds'])}, server of {config.machines.server_cpus:g} CPUs; time here "
        f"{seconds(summary['wall_seconds'])}.",
    ]
    if len(summary["excluded"]) > len(lines) - 3:
        lines.append(f"FAILED in all rounds: {count(len(summary['excluded']), 'upload')}, listed in the report.")
    if summary["why_profile"]:
        lines.append(f"Profile {summary['why_profile']}.")
    if summary["sensitivity_noise"] is not None:
        lines.append(f"{noise_words(summary['sensitivity_noise'])}.")
    for line in lines:
        click.echo(click.wrap_text(line.replace("\N{NO-BREAK SPACE}", " "), WIDTH, "", "  "))
    click.echo(f"folder: {folder}")


def _clusters(config: RunConfig, result: Outcome) -> str:
    """The number of clusters, and why."""
    models = len(result.model_sha256)
    for_all = ", all clients train one model" if models == 1 and config.groups.clustering != "none" else ""
    return f"{count(models, 'cluster').capitalize()}{for_all}: {result.why_clusters}."


def _percent(accuracy: float | None) -> str:
    """An accuracy, if it is known."""
    return "unknown" if accuracy is None or math.isnan(accuracy) else f"{accuracy:.1%}"
