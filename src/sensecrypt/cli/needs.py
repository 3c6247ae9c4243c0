"""Commands that need more than the base installation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import click

from sensecrypt.extras import require

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Command = Callable[_Arguments, _Result]


def needs(*extras: str) -> Callable[[_Command[_Arguments, _Result]], _Command[_Arguments, _Result]]:
    """A decorator: without these extras the command ends in one line that says what to install."""

    def decorate(command: _Command[_Arguments, _Result]) -> _Command[_Arguments, _Result]:
        @wraps(command)
        def checked(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
            _, *path = click.get_current_context().command_path.split()
            require(" ".join(["sensecrypt", *path]), *extras)
            return command(*args, **options)

        return checked

    return decorate
