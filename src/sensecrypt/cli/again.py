"""The command line that repeats a command."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource

_LEFT_OUT = {"out", "resume", "no_report", "as_json", "show"}  # they change no result


def command_line(ctx: click.Context, *more: str) -> str:
    """The present command with the options that decide its result, as a shell takes it.

    Args:
        ctx: of the command.
        more: further words.
    """
    words = ["sensecrypt", *ctx.command_path.split()[1:]]
    for each in ctx.command.params:
        name = str(each.name)
        if name in _LEFT_OUT or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        given = ctx.params[name]
        if isinstance(given, bool):
            words.append((each.opts if given else each.secondary_opts)[0])
            continue
        for value in given if isinstance(given, tuple) else [given]:
            words += [str(value)] if isinstance(each, click.Argument) else [each.opts[0], str(value)]
    return shlex.join([*words, *more])
