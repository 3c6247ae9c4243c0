"""`sensecrypt report` and `sensecrypt watch`: a run to look at."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from sensecrypt.cli.needs import needs
from sensecrypt.errors import InvalidInput, MissingExtra, SenseCryptError


@click.command()
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The file. [default: RUN_DIR/report.html]")
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
@needs("report")
def report(run_dir: Path, out: Path | None, show: bool) -> None:
    """Make one HTML page of a run or a comparison.

    The page holds everything and asks no server for anything: mail it, or open it on a phone. A run that is still going
    on gives a page of its rounds so far; `sensecrypt watch` shows one that goes on by itself.
    """
    from sensecrypt.report import write_report

    path = write_report(run_dir, out)
    click.echo(path)
    if show:
        webbrowser.open(path.resolve().as_uri())


@click.command()
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option("--port", default=8650, show_default=True, type=click.IntRange(0, 65535), help="0: any that is free.")
@needs("report")
def watch(run_dir: Path, port: int) -> None:
    """Show a run while it goes on, in the browser.

    RUN_DIR is the folder of a run, of a comparison, or of a fleet's aggregator; it need not be there yet. The page is
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


def report_at_end(folder: Path, *, quiet: bool) -> None:
    """The page of a run or comparison that has just ended; what is missing for it is told, and no error.

    Args:
        folder: of the run.
        quiet: whether standard output belongs to somebody else: then only what went wrong is told.
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
