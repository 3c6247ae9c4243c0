"""`sensecrypt pki …`: a certificate authority for development."""

from __future__ import annotations

from pathlib import Path

import click

_folder = click.Path(file_okay=False, path_type=Path)
_days = click.IntRange(1, 3650)


@click.group()
def pki() -> None:
    """Make certificates for development; a real authority can be used instead."""


@pki.command()
@click.option("--out", required=True, type=_folder, help="The folder to write ca.crt and ca.key to.")
@click.option("--days", default=3650, show_default=True, type=_days, help="How long it is valid.")
def init(out: Path, days: int) -> None:
    """Make a certificate authority. Its key is not encrypted: keep the folder secret."""
    from sensecrypt.keyservice.pki import create_authority

    certificate = create_authority(out, days=days)
    click.echo(f"Authority written to {certificate}; its key, in the same folder, signs certificates: keep it secret.")


@pki.command()
@click.option("--pki", "folder", required=True, type=_folder, help="The folder of `pki init`.")
@click.option(
    "--role",
    required=True,
    type=click.Choice(["server", "admin", "aggregator", "client", "monitor"]),
    help="Role of its owner.",
)
@click.option("--name", required=True, help="Name of its owner, unique.")
@click.option("--host", "hosts", multiple=True, help="Name or address of a server; repeat for more.")
@click.option("--days", default=90, show_default=True, type=_days, help="How long it is valid.")
def issue(folder: Path, role: str, name: str, hosts: tuple[str, ...], days: int) -> None:
    """Issue a certificate and its key."""
    from sensecrypt.keyservice.pki import issue as issue_certificate

    certificate, key = issue_certificate(folder, role=role, name=name, hosts=hosts, days=days)
    click.echo(f"Certificate of {role} {name} written to {certificate}, its key to {key}.")
