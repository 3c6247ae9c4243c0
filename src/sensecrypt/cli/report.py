"""`sensecrypt report` and `sensecrypt watch`: the page of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sensecrypt.cli.needs import needs
from sensecrypt.cli.places import open_page
from sensecrypt.errors import InvalidInput, MissingExtra, SenseCryptError


@click.command()
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The file. [default: RUN_DIR/report.html]")
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
@needs("report")
def report(run_dir: Path, out: Path | None, show: bool) -> None:
    """Write the report of a run or a comparison: one HTML file.

    The page needs no network and no other file. A running run gives a page of its rounds so far; `sensecrypt watch`
    shows a page that follows the run.
    """
    from sensecrypt.report import write_report

    path = write_report(run_dir, out)
    click.echo(path)
    if show and not open_page(path):
        click.echo("no browser found here: open the file yourself", err=True)


@click.command()
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option("--port", default=8650, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@needs("report")
def watch(run_dir: Path, port: int) -> None:
    """Serve a page that follows a run.

    RUN_DIR is the folder of a run, of a comparison, or of a fleet's aggregator; it need not exist yet. The page is
    served on 127.0.0.1 only. Ctrl-C ends it.
    """
    from sensecrypt.report import Watch

    if run_dir.exists() and not run_dir.is_dir():
        raise InvalidInput(str(run_dir), "is no folder", "give the folder of a run")
    try:
        with Watch(run_dir, port) as server:
            click.echo(f"{run_dir} at {server.address} (Ctrl-C ends it)")
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        click.echo("", err=True)


def report_at_end(folder: Path, *, quiet: bool, show: bool | None = False) -> None:
    """Write the page of a run or comparison that has just ended; a failure is a message on standard error.

    Args:
        folder: of the run.
        quiet: leave standard output alone; it carries JSON.
        show: whether to open the page; None: if standard output is a terminal.
    """
    try:
        from sensecrypt.report import write_report

        path = write_report(folder)
    except MissingExtra as error:
        if not quiet:
            click.echo(f"no report: {error}", err=True)
    except SenseCryptError as error:
        click.echo(f"no report: {error}", err=True)
    else:
        if not quiet:
            click.echo(f"report: {path}")
        if (sys.stdout.isatty() if show is None else show) and not open_page(path) and show:
            click.echo("no browser found here: open the file yourself", err=True)
