"""`sensecrypt dkms …`: run the key service, check its log, register runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.cli.needs import needs
from sensecrypt.cli.passphrase import find_passphrase, passphrase_option
from sensecrypt.errors import InvalidInput
from sensecrypt.keyservice.names import check_name
from sensecrypt.profiles import DEFAULT_PROFILE, PROFILES

_folder = click.option(
    "--folder", required=True, type=click.Path(file_okay=False, path_type=Path), help="The service's folder."
)
_file = click.Path(dir_okay=False, path_type=Path)
_RATES = ("learning_rate", "momentum", "beta2", "tau")  # in the order of `--server`
_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
def dkms() -> None:
    """Run the key service, check its audit log, register and end runs."""


@dkms.command()
@_folder
@passphrase_option
def init(folder: Path, passphrase_file: Path | None) -> None:
    """Make the folder of a key service.

    The passphrase comes from --passphrase-file, else from $SENSECRYPT_PASSPHRASE, else from a prompt.
    """
    from sensecrypt.keyservice.http.folder import Folder

    head = Folder(folder).create(find_passphrase(passphrase_file, confirm=True))
    click.echo(f"Key service made in {folder}; its limits are in {folder / 'policy.toml'}.")
    click.echo(f"Audit head {head}")


@dkms.command()
@_folder
@click.option("--ca", "authority", required=True, type=_file, help="Certificate of the authority.")
@click.option("--certificate", required=True, type=_file, help="The service's own.")
@click.option("--key", required=True, type=_file, help="The certificate's key.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8443, show_default=True, type=click.IntRange(0, 65535), help="0: any free one.")
@click.option(
    "--workers",
    default=os.cpu_count() or 1,
    type=click.IntRange(1, 1024),
    help="Processes that decrypt.  [default: one per processor]",
)
@passphrase_option
@needs("dkms")
def serve(
    folder: Path,
    authority: Path,
    certificate: Path,
    key: Path,
    host: str,
    port: int,
    workers: int,
    passphrase_file: Path | None,
) -> None:
    """Run the key service until Ctrl-C or SIGTERM."""
    from sensecrypt.keyservice.http.folder import Folder
    from sensecrypt.keyservice.http.serve import Endpoint
    from sensecrypt.keyservice.http.serve import serve as run_service

    endpoint = Endpoint(host, port, certificate, key, authority)
    phrase = find_passphrase(passphrase_file, confirm=False)
    run_service(
        Folder(folder), phrase, endpoint, workers=workers, on_ready=lambda url: click.echo(f"Listening on {url}")
    )


@dkms.command()
@_folder
@click.option("--head", "noted", help="A head that an earlier check printed: the log must continue from it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit(folder: Path, noted: str | None, as_json: bool) -> None:
    """Check that no line of the audit log was changed, removed or cut off; also while the service runs.

    Keep the printed head elsewhere: with --head, a later check also notices if log and database were both rewritten.
    """
    from sensecrypt.keyservice.http.audit import Head
    from sensecrypt.keyservice.http.folder import Folder, verify_log

    head, waiting = verify_log(Folder(folder), noted=None if noted is None else Head.parse(noted))
    if as_json:
        click.echo(json.dumps({"lines": head.number, "head": str(head), "waiting": waiting}))
        return
    later = f", {waiting} of them in the database until the next start" if waiting else ""
    click.echo(f"The audit log is whole: {head.number:,} lines{later}.")
    click.echo(f"Audit head {head}")


def _admin(command: _Command) -> _Command:
    """Add the options for the connection to a key service."""
    for option in (
        click.option("--run", required=True, help="The run's name."),
        click.option("--ca", "authority", required=True, type=_file, help="Certificate of the authority."),
        click.option("--key", required=True, type=_file, help="The certificate's key."),
        click.option("--certificate", required=True, type=_file, help="The admin's own."),
        click.option("--url", required=True, help="Address of the key service, such as https://dkms.example:8443."),
    ):
        command = option(command)
    return command


@dkms.command()
@_admin
@click.option("--size", required=True, type=click.IntRange(1), help="Parameters of the model.")
@click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    type=click.Choice(list(PROFILES)),
    help="Profile of the run's key pair.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="NAME",
    help="Name of a client's certificate; clients are numbered from 0, in order.",
)
@click.option("--members", "members_file", type=_file, help="A file with all clients' names, one per line.")
@click.option(
    "--min-contributors", default=3, show_default=True, type=click.IntRange(2), help="Fewest clients in a sum."
)
@click.option(
    "--quorum",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Least part of a cluster in a sum.",
)
@click.option(
    "--first", metavar="START:STOP", multiple=True, help="Parameters that come first in every importance order; repeat."
)
@click.option(
    "--aggregator",
    "aggregators",
    multiple=True,
    default=("aggregator",),
    show_default=True,
    metavar="NAME",
    help="A certificate that may register rounds and submit sums of this run; repeat.",
)
@click.option(
    "--rounds", type=click.IntRange(1), help="Rounds, after which the key is destroyed.  [default: until dkms close]"
)
@click.option(
    "--server",
    default="fedavg",
    show_default=True,
    metavar="RULE[,RATE[,MOMENTUM[,BETA2[,TAU]]]]",
    help="How a round's mean update moves the model: fedavg, fedavgm, fedadam or fedyogi, and its settings.",
)
@click.option(
    "--statistics", type=click.IntRange(0), default=0, help="Values at the model's end that are no parameters."
)
@click.option("--json", "as_json", is_flag=True, help="Print the run's public facts as one JSON object.")
def register(
    url: str,
    certificate: Path,
    key: Path,
    authority: Path,
    run: str,
    size: int,
    profile: str,
    members: tuple[str, ...],
    members_file: Path | None,
    min_contributors: int,
    quorum: float,
    first: tuple[str, ...],
    aggregators: tuple[str, ...],
    rounds: int | None,
    server: str,
    statistics: int,
    as_json: bool,
) -> None:
    """Register a run and its members, as admin; the service makes its key pair. The same again changes nothing."""
    from sensecrypt.keyservice.http.client import DkmsClient

    check_name("--run", run)
    numbered = dict(enumerate(_names(members, members_file)))
    if len(numbered) < min_contributors:
        problem = f"is {min_contributors}, and the run has {len(numbered)} members"
        raise InvalidInput("--min-contributors", problem, "name more members, or ask for fewer contributors")
    ranges, rule = [_range(text) for text in first], _rule(server, statistics)
    with DkmsClient(url, certificate=certificate, key=key, authority=authority) as admin:
        public = admin.register_run(
            run,
            size=size,
            profile=profile,
            members=numbered,
            min_contributors=min_contributors,
            aggregators=[check_name("--aggregator", name) for name in aggregators],
            quorum=quorum,
            first=ranges,
            rounds=rounds,
            server=rule,
        )
    if as_json:
        click.echo(json.dumps(public))
    else:
        click.echo(f"Run {run} is registered: {len(numbered)} members, {size:,} parameters, {profile}.")


def _rule(text: str, statistics: int) -> ServerRule:
    """The server rule that `--server` describes."""
    name, *rates = text.split(",")
    try:
        settings: dict[str, Any] = dict(zip(_RATES, map(float, rates), strict=len(rates) > len(_RATES)))
        return ServerRule(name, **settings, statistics=statistics)
    except (TypeError, ValueError):
        raise InvalidInput("--server", f"is {text!r}", "write a rule and numbers, such as fedadam,0.1") from None


@dkms.command()
@_admin
def close(url: str, certificate: Path, key: Path, authority: Path, run: str) -> None:
    """End a run, as admin: its secret key is destroyed. Members can still fetch released models."""
    from sensecrypt.keyservice.http.client import DkmsClient

    check_name("--run", run)
    with DkmsClient(url, certificate=certificate, key=key, authority=authority) as admin:
        admin.end_run(run)
    click.echo(f"Run {run} has ended: its secret key is destroyed.")


def _names(members: tuple[str, ...], file: Path | None) -> list[str]:
    """The members' names, from the options or the file."""
    fix = "name each client once, with --member or in the file of --members"
    if bool(members) == (file is not None):
        raise InvalidInput("--member", "is needed, or --members, and not both", fix)
    names = list(members)
    if file is not None:
        try:
            names = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise InvalidInput(str(file), f"cannot be read ({error.strerror})", "check the path") from None
        except UnicodeDecodeError:
            raise InvalidInput(str(file), "is no text", "write one name per line") from None
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise InvalidInput(str(file or "--member"), f"names {twice[0]!r} twice" if twice else "names no client", fix)
    return [check_name(str(file or "--member"), name) for name in names]


def _range(text: str) -> tuple[int, int]:
    start, colon, stop = text.partition(":")
    if not colon or not start.isdecimal() or not stop.isdecimal() or int(start) >= int(stop):
        raise InvalidInput("--first", f"is {text!r}", "write START:STOP, such as 0:784, with START below STOP")
    return int(start), int(stop)
