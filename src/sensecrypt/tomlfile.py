"""Reads settings that a user writes as TOML; an unreadable file or an unknown key is an error of one line."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sensecrypt.errors import InvalidInput


def read_toml(path: Path, *, otherwise: str, example: str) -> dict[str, Any]:
    """The table in a file.

    Args:
        path: of the file.
        otherwise: what to do if it cannot be read.
        example: a line as it should be, for a file that is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read ({error.strerror})", otherwise) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(path), f"is no TOML ({error})", f"write lines such as: {example}") from None


def refuse_unknown(settings: Mapping[str, Any], known: Iterable[str], of: str) -> None:
    """Raise for the first key that is none of the `known`, with the nearest of them."""
    names = list(known)
    for key in settings:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            fix = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(names)}"
            raise InvalidInput(key, f"is no key of {of}", fix)
