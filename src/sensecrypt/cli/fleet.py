"""`sensecrypt fleet …`: a fleet of processes on this machine, for tests."""

from __future__ import annotations

import json
import shlex
import signal
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from sensecrypt.cli.needs import needs
from sensecrypt.cli.report import report_at_end
from sensecrypt.config import AUTO, PRESETS, RunConfig, read_config
from sensecrypt.errors import InvalidInput

if TYPE_CHECKING:
    from sensecrypt.lab.fleet.fleet import Fleet
    from sensecrypt.lab.fleet.folder import FleetFolder
    from sensecrypt.lab.fleet.submit import Submitted

_folder = click.option(
    "--folder",
    default=Path("fleet"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The fleet's folder.",
)


@click.group()
def fleet() -> None:
    """A fleet for tests: key service, Flower's SuperLink and SuperNodes, as processes of this machine."""


@fleet.command()
@_folder
@click.option("--clients", type=int, help="How many SuperNodes; at least 2. An existing fleet keeps its number.")
@click.option("--tls", is_flag=True, default=None, help="SuperLink has a certificate, SuperNodes have registered keys.")
@click.option("--port", type=click.IntRange(1, 65535), help="The first of clients + 2 ports.  [default: free ones]")
@needs("dkms", "flower", "torch")
def up(folder: Path, clients: int | None, tls: bool | None, port: int | None) -> None:
    """Start a fleet and keep it running until Ctrl-C or SIGTERM; a process that dies is restarted.

    The folder is made if it is new, with certificates, keys and a key service; else its fleet starts again with all
    that it knew. For trying out only: the key service's passphrase lies in the folder.
    """
    from sensecrypt.lab.fleet.fleet import Fleet

    started = Fleet(folder, clients=clients, tls=tls, port=port, say=click.echo)
    with _signals(signal.default_int_handler):  # also where a shell's `&` has Ctrl-C ignored
        try:
            started.up()
            click.echo(_next_steps(started))
            started.tend(threading.Event())
        except KeyboardInterrupt:
            pass
        finally:
            with _signals(signal.SIG_IGN):  # an impatient second Ctrl-C must leave nothing behind
                if started.parts:
                    click.echo("ending the fleet …")
                started.down()
    click.echo("The fleet is down.")


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], Any] | signal.Handlers) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM inside the block."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@fleet.command()
@_folder
@click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting (see `sensecrypt settings`); repeatable.",
)
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Values of the settings that are not given.")
@click.option("--name", help="Of the run.  [default: the time]")
@click.option("--resume", metavar="RUN", help="Continue that run from its last complete round.")
@click.option("--deadline", type=float, help="Seconds to wait for the replies of a round.")
@click.option("--enrol-seconds", type=float, help="Seconds to wait for clients at the start.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@needs("dkms", "flower", "torch")
def run(
    folder: Path,
    config_file: Path | None,
    changes: tuple[str, ...],
    preset: str | None,
    name: str | None,
    resume: str | None,
    deadline: float | None,
    enrol_seconds: float | None,
    as_json: bool,
) -> None:
    """Run a training on a running fleet; prints the table of `sensecrypt run`."""
    from sensecrypt.lab.fleet.folder import FleetFolder
    from sensecrypt.lab.fleet.submit import submit

    place = FleetFolder(folder.expanduser().absolute())
    place.refuse_unless_up()
    if resume is not None:
        if config_file is not None or changes or preset is not None or name is not None:
            raise InvalidInput("--resume", "continues a run as configured", "leave out name and settings")
        config = _resumed(place, resume)
    else:
        config = _resolved(_config(place, config_file, changes, preset))
    submitted = submit(
        place,
        config,
        run=resume or name,
        resume=resume is not None,
        deadline=deadline,
        enrol_seconds=enrol_seconds,
    )
    click.echo(
        f"run {submitted.run} is submitted; watch it: sensecrypt watch {shlex.quote(str(submitted.folder))}", err=True
    )
    _follow(config, submitted, as_json)


def _follow(config: RunConfig, submitted: Submitted, as_json: bool) -> None:
    from sensecrypt.cli.run import progress, show
    from sensecrypt.runs.folder import RunFolder
    from sensecrypt.runs.outcome import absences

    try:
        with progress(config) as (on_round, _):
            submitted.wait(on_round=on_round)
    except KeyboardInterrupt:
        submitted.stop()
        raise click.ClickException(f"interrupted, and the run is stopped; {submitted.hint()}") from None
    outcome = submitted.outcome()
    if as_json:
        click.echo(json.dumps(outcome.summary()))
    else:
        show(config, outcome, submitted.folder)
    for line in absences(RunFolder(submitted.folder), outcome.labels):
        click.echo(line, err=True)
    report_at_end(submitted.folder, quiet=as_json)


def _config(place: FleetFolder, file: Path | None, changes: tuple[str, ...], preset: str | None) -> RunConfig:
    """The given settings; the number of clients is the fleet's unless given."""
    from sensecrypt.cli.run import parse_settings

    said = parse_settings(changes, preset)
    config = read_config(file, said)
    if "clients" in said or (file is not None and "clients" in tomllib.loads(file.read_text())):
        return config
    return read_config(file, {**said, "clients": place.read().clients})


def _resolved(config: RunConfig) -> RunConfig:
    """The settings with `auto` replaced by the profile chosen for their devices."""
    if config.encryption.profile != AUTO:
        return config
    from sensecrypt.lab.fleet.registration import size_and_first
    from sensecrypt.simulation.profilechoice import resolve_profile

    config, why = resolve_profile(config, size_and_first(config)[0])
    click.echo(f"profile {why}", err=True)
    return config


def _resumed(place: FleetFolder, run: str) -> RunConfig:
    from sensecrypt.keyservice.names import check_name
    from sensecrypt.runs.folder import RunFolder

    return RunFolder(place.run(check_name("--resume", run))).read_config()


def _next_steps(started: Fleet) -> str:
    description, path = started.folder.read(), started.folder.path
    return (
        f"SuperLink {description.superlink}, key service {description.dkms_url}, logs in {path / 'logs'}\n"
        f"Submit a run, in another terminal:\n"
        f"  sensecrypt fleet run --folder {shlex.quote(str(path))} --set partition=iid --set rounds=3 "
        f"--set min_contributors={min(3, description.clients)}\n"
        "Ctrl-C ends the fleet."
    )
