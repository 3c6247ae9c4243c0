"""Sources of a passphrase."""

from __future__ import annotations

import ctypes
import getpass
import os
import warnings
from pathlib import Path

import click

from sensecrypt.errors import KeyFileError

PASSPHRASE_VARIABLE = "SENSECRYPT_PASSPHRASE"  # noqa: S105  (the variable's name, not a passphrase)

passphrase_option = click.option(
    "--passphrase-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its first line."
)


def find_passphrase(file: Path | None, *, confirm: bool) -> str:
    """From the file, the environment or a prompt, in that order."""
    if file is not None:
        try:  # undecodable bytes become surrogates, which the key file refuses without printing them
            lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except OSError as error:
            raise KeyFileError(str(file), f"cannot be read ({error.strerror})", "check the path") from None
        if not lines or not lines[0]:
            raise KeyFileError(str(file), "has no passphrase in its first line", "write one there")
        return lines[0]
    if given := _take_from_environment():
        return given
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)  # it would echo what is typed
        try:
            prompted: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm)
        except getpass.GetPassWarning:
            fix = f"use --passphrase-file or ${PASSPHRASE_VARIABLE}"
            raise KeyFileError("passphrase", "there is no terminal to ask for it", fix) from None
    return prompted


def _take_from_environment() -> str | None:
    """Read the variable and remove it, also from /proc/self/environ and child processes."""
    given = os.environ.get(PASSPHRASE_VARIABLE)
    if given is None:
        return None
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_void_p
    place = library.getenv(PASSPHRASE_VARIABLE.encode())
    if place:
        ctypes.memset(place, 0, len(os.fsencode(given)))
    del os.environ[PASSPHRASE_VARIABLE]
    return given
