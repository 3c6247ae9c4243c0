"""The settings of each item, read from `reproduce/ID.toml`: a quick scale and a full one.

A file has one table per scale and, at its top, `differs`: how the item differs from the paper's. A scale may have its
own `differs`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sensecrypt.errors import InvalidInput
from sensecrypt.tomlfile import read_toml

SCALES = ("quick", "full")
_PACKAGED = Path(__file__).with_name("specs")  # in an installed package
_REPOSITORY = Path(__file__).parents[4] / "reproduce"


@dataclass(frozen=True)
class Scaled:
    """One item at one scale."""

    scale: str  # `quick` or `full`
    settings: dict[str, Any]  # what the item reads
    differs: tuple[str, ...]  # how it differs from the paper's, in words


def read_spec(item: str, scale: str, changes: Mapping[str, str], *, folder: Path | None = None) -> Scaled:
    """The settings of an item at a scale, from the project's files or those in `folder`.

    `changes` are settings as the user typed them; those that the item does not have are ignored.
    """
    path, table = _read(item, folder)
    if scale not in table:
        raise InvalidInput(str(path), f"has no table [{scale}]", f"add it, or choose another of {', '.join(SCALES)}")
    if not isinstance(table[scale], dict):
        raise InvalidInput(str(path), f"has {scale} as a single value", f"write a table [{scale}]")
    settings = dict(table[scale])
    for key, value in settings.items():
        _refuse_infinite(f"{path}: {key}", value)
    differs = (*table.get("differs", ()), *settings.pop("differs", ()))
    changed = {key: _like(key, text, settings[key]) for key, text in changes.items() if key in settings}
    more = tuple(f"{key} = {value!r}, by hand" for key, value in changed.items())
    return Scaled(scale, settings | changed, differs + more)


def common_differs(item: str, *, folder: Path | None = None) -> tuple[str, ...]:
    """How an item differs from the paper's at every scale: in its method, not in its size."""
    return tuple(_read(item, folder)[1].get("differs", ()))


def _read(item: str, folder: Path | None) -> tuple[Path, dict[str, Any]]:
    path = (folder or (_PACKAGED if _PACKAGED.is_dir() else _REPOSITORY)) / f"{item}.toml"
    return path, read_toml(path, otherwise="give the folder with --specs", example="seeds = 30")


def _like(key: str, text: str, old: Any) -> Any:
    """A setting as the user typed it, converted to the type that it replaces."""
    try:
        new = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        new = text
    if not _is_like(new, old):
        raise InvalidInput(key, f"is {text!r}", f"give a value like {old!r}")
    _refuse_infinite(key, new)
    return _as_floats(new, old)


def _is_like(new: Any, old: Any) -> bool:
    """Whether both have the same type, as have list elements; a whole number is accepted for a float."""
    if isinstance(old, list) and isinstance(new, list):
        return bool(new) and all(any(_is_like(each, known) for known in old) for each in new)
    return type(new) is type(old) or (type(new) is int and isinstance(old, float))


def _as_floats(new: Any, old: Any) -> Any:
    if isinstance(old, list):
        return [_as_floats(each, old[0]) for each in new]
    return float(new) if isinstance(old, float) and type(new) is int else new


def _refuse_infinite(key: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(key, f"is {value:g}", "give a finite number")
    for each in value if isinstance(value, list) else ():
        _refuse_infinite(key, each)
