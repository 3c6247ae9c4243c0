"""What a user's mistake on the command line is answered with: one line, exit code 2, and the nearest right name."""

from __future__ import annotations

import difflib
from typing import Any

import click

from sensecrypt.config import SETTINGS
from sensecrypt.errors import InvalidInput, MissingExtra, SenseCryptError


class _UserMistake(click.ClickException):
    exit_code = 2


class Commands(click.Group):
    """The root of the command tree. Every error of the commands below it passes through `invoke`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except SenseCryptError as error:
            users = isinstance(error, InvalidInput | MissingExtra)
            raise (_UserMistake if users else click.ClickException)(str(error)) from error
        except click.NoSuchOption as error:
            raise _with_setting(error) from None
        except click.UsageError as error:
            raise _with_command(error) from None


def _with_setting(error: click.NoSuchOption) -> click.UsageError:
    """The same error; a setting that was written as an option is shown as `--set` takes it."""
    key = error.option_name.lstrip("-").replace("-", "_")
    takes = error.ctx is not None and any("--set" in each.opts for each in error.ctx.command.params)
    near = difflib.get_close_matches(key, SETTINGS, n=1, cutoff=0.8)
    if not takes or not near or (key not in SETTINGS and error.possibilities):
        return error
    return click.UsageError(f"No such option {error.option_name!r}. Write --set {near[0]}=VALUE.", error.ctx)


def _with_command(error: click.UsageError) -> click.UsageError:
    """The same error; a command that does not exist is shown with the nearest one."""
    ctx = error.ctx
    if ctx is None or not isinstance(ctx.command, click.Group) or not error.message.startswith("No such command"):
        return error
    name = error.message.split("'")[1]
    near = difflib.get_close_matches(name, ctx.command.list_commands(ctx), n=1)
    return click.UsageError(f"No such command {name!r}. Did you mean {near[0]!r}?", ctx) if near else error
