"""Atomic writing of files: a reader never sees a partial file."""

from __future__ import annotations

import os
from pathlib import Path

from sensecrypt.errors import InvalidInput, SenseCryptError


def make_folder(folder: Path) -> None:
    """Create a folder chosen by the user, and its parents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(str(folder), f"cannot be created ({error.strerror})", "choose another --out") from None


def write_whole(path: Path, data: bytes) -> Path:
    """Write a file atomically and return its path; an old file is replaced once the new one is on disk."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SenseCryptError(f"{path} cannot be written: {error.strerror}; free some space") from None
