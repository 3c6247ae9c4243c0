"""The root of the command tree.

Exit codes: 0 done; 1 the run failed; 2 the user's mistake, explained in one line.
"""

from __future__ import annotations

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
from sensecrypt.cli.mistakes import Commands
from sensecrypt.cli.pki import pki
from sensecrypt.cli.report import report, watch
from sensecrypt.cli.reproduce import reproduce
from sensecrypt.cli.run import run
from sensecrypt.cli.settings import settings


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
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
main.add_command(settings)
main.add_command(watch)
