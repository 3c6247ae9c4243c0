"""`sensecrypt reproduce`: measures the paper's figures and tables, draws them and compares the outcomes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sensecrypt.cli.needs import needs
from sensecrypt.cli.run import parse_settings
from sensecrypt.cli.tables import WIDTH, show_table
from sensecrypt.errors import InvalidInput

if TYPE_CHECKING:
    from sensecrypt.lab.experiments.item import Item, Outcome, Verdict
    from sensecrypt.lab.experiments.saved import Saved
    from sensecrypt.lab.experiments.specs import Scaled

_COLOURS: dict[Outcome, str] = {
    "reproduced": "green",
    "reproduced in shape": "yellow",
    "not reproduced": "red",
    "beyond": "cyan",
    "too little to tell": "magenta",
}


@click.command()
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@click.option("--list", "as_list", is_flag=True, help="Show all items and how long they take.")
@click.option("--quick/--full", default=True, show_default=True, help="Smaller settings, or those of docs/results.md.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a setting of the items; repeatable.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("results"), show_default=True)
@click.option("--specs", type=click.Path(file_okay=False, path_type=Path), help="Settings of the items: ID.toml files.")
@click.option("--again", is_flag=True, help="Measure again what is in --out already.")
@click.option(
    "--document", type=click.Path(dir_okay=False, path_type=Path), help="Only write what is in --out as one document."
)
@click.option(
    "--fidelity",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Only write the paper line by line, from the TOML file of that name and what is in --out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@needs("lab")
def reproduce(
    items: tuple[str, ...],
    as_list: bool,
    quick: bool,
    changes: tuple[str, ...],
    out: Path,
    specs: Path | None,
    again: bool,
    document: Path | None,
    fidelity: Path | None,
    as_json: bool,
) -> None:
    """Measure figures and tables of the paper (ITEM, several, or `all`), draw them, and compare with the paper.

    An interrupted command continues when it is repeated. For each item, --out gets a folder with its rows (JSON and
    CSV) and its figure.
    """
    if not items and not as_list and document is None and fidelity is None:
        raise InvalidInput("item", "is missing", "name one or `all`; `sensecrypt reproduce --list` lists the items")
    from sensecrypt.lab.experiments.catalogue import ITEMS, find_items  # loads PyTorch: only once there is work

    if document is not None or fidelity is not None:
        _write_pages(list(ITEMS.values()), out, document, fidelity, specs)
        return
    scale = "quick" if quick else "full"
    wanted = find_items(items or ("all",))
    scaled = {item.id: _read(item, scale, parse_settings(changes, None), specs) for item in wanted}
    if changes and not any("by hand" in note for each in scaled.values() for note in each.differs):
        raise InvalidInput("--set", f"{', '.join(changes)} changes nothing", "use a key of reproduce/ID.toml")
    if as_list:
        _list(wanted, scaled)
        return
    _check_data(wanted, scaled)
    results = {}
    for item in wanted:
        saved = _measure(item, scaled[item.id], out, again=again, quiet=as_json)
        results[item.id] = _finish(item, saved, out, quiet=as_json)
    if as_json:
        click.echo(json.dumps({"items": results}))


def _write_pages(
    items: list[Item], out: Path, document: Path | None, fidelity: Path | None, specs: Path | None
) -> None:
    from sensecrypt.files import write_whole
    from sensecrypt.lab.experiments.document import write_document
    from sensecrypt.lab.experiments.fidelity import write_fidelity

    if document is not None:
        write_whole(document, write_document(items, out, document).encode())
        click.echo(f"written: {document}")
    if fidelity is not None:
        write_whole(fidelity, write_fidelity(items, out, fidelity, specs=specs).encode())
        click.echo(f"written: {fidelity}")


def _read(item: Item, scale: str, changes: dict[str, Any], specs: Path | None) -> Scaled:
    from sensecrypt.lab.experiments.specs import read_spec

    return read_spec(item.id, scale, changes, folder=specs)


def _check_data(items: list[Item], scaled: dict[str, Scaled]) -> None:
    """Load every data set now: a missing one is an error before hours of work."""
    from sensecrypt.data import load_dataset

    for name in dict.fromkeys(name for item in items for name in item.datasets(scaled[item.id].settings)):
        load_dataset(name)


def _measure(item: Item, scaled: Scaled, out: Path, *, again: bool, quiet: bool) -> Saved:
    from sensecrypt.lab.experiments.measuring import measure, measured_already

    if not again and (saved := measured_already(out / item.id, scaled)) is not None:
        if not quiet:
            click.echo(f"{item.id}: measured on {saved.day} with these settings; --again measures it again")
        return saved
    cells = item.cells(scaled.settings)
    total = sum(cell.seconds for cell in cells)
    console = Console(stderr=True)
    if not quiet:
        console.print(f"{item.id}: {item.title}; {len(cells)} part(s), about {_duration(total)}")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=quiet, auto_refresh=False) as progress:
        bar = progress.add_task(item.id, total=total)

        def on_cell(name: str, done: float) -> None:
            progress.update(bar, description=f"{item.id}: {name}", completed=done, refresh=True)

        try:
            return measure(item, scaled, out / item.id, on_cell=on_cell)
        except KeyboardInterrupt:
            raise click.ClickException("interrupted; repeat the command to continue") from None


def _finish(item: Item, saved: Saved, out: Path, *, quiet: bool) -> dict[str, Any]:
    from sensecrypt.lab.experiments.saved import draw, judge

    picture = draw(out / item.id, item, saved)
    verdicts = judge(item, saved)
    if not quiet:
        _show(item, saved, verdicts)
        click.echo(f"{picture}\n")
    return {
        "scale": saved.scale,
        "seconds": saved.seconds,
        "picture": str(picture),
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "rows": saved.rows,
    }


def _list(items: list[Item], scaled: dict[str, Scaled]) -> None:
    columns = ("item", "what", "in the paper", "about")
    lines = [
        (
            item.id,
            item.title,
            item.place or "ours",
            _duration(sum(cell.seconds for cell in item.cells(scaled[item.id].settings))),
        )
        for item in items
    ]
    show_table("", columns, lines, left=columns[:3])


def _show(item: Item, saved: Saved, verdicts: list[Verdict]) -> None:
    where = f" ({item.place})" if item.place else ""
    table = Table(title=f"{item.title}{where}, {saved.scale}", title_justify="left", show_lines=True)
    table.add_column("the paper says" if item.place else "question", ratio=4)
    table.add_column("we measured", ratio=5)
    table.add_column("verdict", ratio=1)
    for verdict in verdicts:
        table.add_row(verdict.says, verdict.measured, f"[{_COLOURS[verdict.outcome]}]{verdict.outcome}")
    Console(width=max(WIDTH, Console().width)).print(table)
    if saved.differs:
        click.echo("Differs from the paper: " + "; ".join(saved.differs) + ".")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
