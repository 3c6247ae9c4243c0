"""The root of the command tree, and what becomes of errors.

Exit codes: 0 done; 1 the run failed; 2 the user's mistake, told in one line.
"""

from __future__ import annotations

from typing import Any

import click

from sensecrypt._version import __version__
from sensecrypt.cli.advise import advise
from sensecrypt.cli.attack import attack
from sensecrypt.cli.bench import bench
from sensecrypt.cli.compare import compare
from sensecrypt.cli.completion import completion
from sensecrypt.cli.demo import demo
from sensecrypt.cli.dkms import dkms
from sensecrypt.cli.doctor import doctor
from sensecrypt.cli.fleet import fleet
from sensecrypt.cli.keys import keys
from sensecrypt.cli.pki import pki
from sensecrypt.cli.report import report, watch
from sensecrypt.cli.reproduce import reproduce
from sensecrypt.cli.run import run
from sensecrypt.errors import InvalidInput, MissingExtra, SenseCryptError


class _UserMistake(click.ClickException):
    exit_code = 2


class _Commands(click.Group):
    """Turns our errors into one line and an exit code, at every level below it."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SenseCryptError as error:
            users = isinstance(error, InvalidInput | MissingExtra)
            raise (_UserMistake if users else click.ClickException)(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sensecrypt")
def main() -> None:
    """Selective homomorphic encryption for federated learning on uneven devices."""


main.add_command(advise)
main.add_command(attack)
main.add_command(bench)
main.add_command(compare)
main.add_command(completion)
main.add_command(demo)
main.add_command(dkms)
main.add_command(doctor)
main.add_command(fleet)
main.add_command(keys)
main.add_command(report)
main.add_command(reproduce)
main.add_command(pki)
main.add_command(run)
main.add_command(watch)
