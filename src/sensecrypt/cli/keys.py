"""`sensecrypt keys …`: generate, show and share key files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sensecrypt.cli.passphrase import find_passphrase, passphrase_option
from sensecrypt.profiles import DEFAULT_PROFILE, PROFILES

_path = click.Path(dir_okay=False, path_type=Path)
_force = click.option("--force", is_flag=True, help="Overwrite an existing file.")


@click.group()
def keys() -> None:
    """Generate, show and share keys."""


@keys.command()
@click.option("--profile", default=DEFAULT_PROFILE, show_default=True, type=click.Choice(list(PROFILES)))
@click.option("--out", required=True, type=_path, help="The secret key file to write, encrypted, mode 0600.")
@passphrase_option
@_force
def generate(profile: str, out: Path, passphrase_file: Path | None, force: bool) -> None:
    """Make a key pair and write it to one file, the secret part encrypted.

    The passphrase comes from --passphrase-file, else from $SENSECRYPT_PASSPHRASE, else from a prompt.
    """
    from sensecrypt.crypto.keyfile import write_secret
    from sensecrypt.crypto.keys import generate_keypair
    from sensecrypt.crypto.publicfile import refuse_existing

    if PROFILES[profile].security_bits == 0:
        click.echo(f"Warning: {profile} gives no security; use it in tests only.", err=True)
    refuse_existing(out, force)
    passphrase = find_passphrase(passphrase_file, confirm=True)
    public, secret = generate_keypair(profile)
    write_secret(out, secret, passphrase, force=force)
    click.echo(f"{public!r} written to {out}")


@keys.command()
@click.argument("file", type=_path)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(file: Path, as_json: bool) -> None:
    """Show the public part of a key file; no passphrase is needed."""
    from sensecrypt.crypto.publicfile import read_public

    key = read_public(file)
    profile = key.profile
    facts = {
        "profile": profile.name,
        "fingerprint": key.fingerprint,
        "key_bits": profile.key_bits,
        "slots": profile.slots,
        "slot_bits": profile.slot_bits,
        "ciphertext_bytes": profile.ciphertext_bytes,
        "bytes_per_value": round(profile.bytes_per_value, 3),
        "security_bits": profile.security_bits,
        "assumption": profile.assumption,
        "citation": profile.citation,
    }
    if as_json:
        click.echo(json.dumps(facts))
    else:
        for name, fact in facts.items():
            click.echo(f"{name.replace('_', ' '):18} {fact}")


@keys.command()
@click.argument("file", type=_path)
@click.option("--out", required=True, type=_path, help="The public key file to write.")
@_force
def public(file: Path, out: Path, force: bool) -> None:
    """Write the public part of a key file to another file, which can be shared."""
    from sensecrypt.crypto.publicfile import read_public, write_public

    key = read_public(file)
    write_public(out, key, force=force)
    click.echo(f"{key!r} written to {out}")
