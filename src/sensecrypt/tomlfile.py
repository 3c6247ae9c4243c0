"""Reads settings from TOML files; unreadable files and unknown keys are one-line errors."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sensecrypt.errors import InvalidInput


def read_toml(path: Path, *, otherwise: str, example: str) -> dict[str, Any]:
    """Return the table in a TOML file.

    Args:
        path: the file.
        otherwise: the fix to show if the file cannot be read.
        example: a valid line, to show if the file is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read ({error.strerror})", otherwise) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(path), f"is not TOML ({error})", f"write lines such as: {example}") from None


def refuse_unknown(settings: Mapping[str, Any], known: Iterable[str], of: str) -> None:
    """Raise for the first key that is not in `known`, and suggest the nearest known key."""
    names = list(known)
    for key in settings:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            fix = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(names)}"
            raise InvalidInput(key, f"is not a key of {of}", fix)
