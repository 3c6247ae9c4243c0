"""`sensecrypt advise`: which protection for a model and a fleet."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sensecrypt.cli.needs import needs
from sensecrypt.cli.run import choose_dataset, parse_settings
from sensecrypt.cli.status import shown_status
from sensecrypt.cli.tables import show_table
from sensecrypt.errors import InvalidInput

if TYPE_CHECKING:
    from sensecrypt.lab.compare.subject import Subject

_WIDTH = 80
ADVERSARIES = {
    "zero-fill": "takes 0 for what is hidden",
    "zero-fill-direction": "the same, by the direction of the update",
    "stale-fill": "takes the last round's values for what is hidden",
    "completion": "solves for what is hidden",
    "prototype": "compares with updates of public data",
    "mask-only": "looks only at which parameters are encrypted",
    "collusion": "is the aggregator together with one client",
    "sensitivity": "reads the sensitivities that the paper's clients upload",
    "value-matching": "matches visible values to their places",
}


@click.command()
@click.argument("model", required=False, metavar="[FILE.py:FUNCTION]")
@click.option("--dataset", help="As in `sensecrypt run`, without a model of your own.  [default: digits]")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="A setting, such as devices=laptop; repeatable."
)
@click.option("--batch", default=30, show_default=True, type=click.IntRange(2), help="Samples of attacked clients.")
@click.option("--distribution", help="Of their data: iid, or a number of classes.  [default: 3, or all if fewer]")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(2), help="Attacked clients a figure.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@needs("lab")
def advise(
    model: str | None,
    dataset: str | None,
    changes: tuple[str, ...],
    batch: int,
    distribution: str | None,
    seeds: int,
    as_json: bool,
) -> None:
    """Say which protection fits a model and a fleet, with what each one costs and leaves to attackers.

    With FILE.py:FUNCTION, the function returns your model (an nn.Module that tells classes apart), and a function
    `data` in the same file returns its inputs and labels. Without, a model of the paper is used.

    Two rounds on the device clock give the cost; attacks on clients that encrypt as much as the weakest device give
    the protection. All figures are measured for this answer.
    """
    settings = parse_settings(changes, None)
    if model is not None and (dataset is not None or "dataset" in settings):
        raise InvalidInput("--dataset", "is for models of the paper", f"leave it out, {model} brings its data")
    chosen = choose_dataset(dataset, settings)
    from sensecrypt.lab.compare import advice  # loads PyTorch

    settings.setdefault("rounds", "2")
    subject = _subject(model, chosen, settings)
    attacked = advice.Attacked(samples=batch, seeds=seeds, distribution=distribution or str(min(3, subject.classes)))
    with tempfile.TemporaryDirectory() as folder, shown_status("starting") as update:
        report = advice.assess(
            advice.CANDIDATES, subject, settings, Path(folder) / "cost", attacked=attacked, on_step=update
        )
    if as_json:
        click.echo(json.dumps(report))
        return
    try:
        click.echo(click.wrap_text(_recommendation(advice.recommend(report), report), _WIDTH))
    except InvalidInput as error:
        click.echo(f"No recommendation: {error}")
    click.echo()
    _show(report)


def _subject(model: str | None, dataset: str, settings: dict[str, Any]) -> Subject:
    """What is trained; the settings are made to fit."""
    from sensecrypt.config import make_config
    from sensecrypt.lab.compare.subject import call_from_file, named_subject, own_subject

    if model is None:
        settings["dataset"] = dataset
        return named_subject(dataset, str(settings.get("model", "")))
    if ":" not in model:
        raise InvalidInput("model", f"is {model!r}", "write FILE.py:FUNCTION, such as my_model.py:build")
    settings.setdefault("clients", "5")
    clients = make_config(settings).problem.clients
    subject = own_subject(call_from_file(model), call_from_file(model, "data"), clients)
    settings |= {"dataset": "own", "model": subject.name, "partition": "own"}
    return subject


def _recommendation(row: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    plain = report["rows"][0]
    own = "".join(f", {key}={value}" for key, value in row["settings"].items())
    seconds, without = row["rounds"][-1]["seconds"], plain["rounds"][-1]["seconds"]
    return (
        f"Use the default preset{own}: a round takes {seconds:.2g} s, {seconds / without:.1f} times as long as without "
        f"protection; every device encrypts at least {row['weakest_share']:.0%}, and no attacker "
        "finds more than by guessing."
    )


def _show(report: Mapping[str, Any]) -> None:
    attacked, plain = report["attacked"], report["rows"][0]
    lines = [
        (
            row["label"],
            f"{row['rounds'][-1]['seconds']:.3g} s",
            f"{row['rounds'][-1]['seconds'] / plain['rounds'][-1]['seconds']:,.1f}",
            f"{row['weakest_share']:.0%}",
            f"{row['found']:.0%}" if row["verdict"] == "learns" else row["verdict"],
            row["strongest"] if row["verdict"] == "learns" else "",
        )
        for row in report["rows"]
    ]
    columns = ("protection", "a round", "x plain", "least encrypted", "labels found", "by")
    title = f"{report['model']}, {report['clients']} clients; {attacked['seeds']} attacked"
    show_table(title, columns, lines, left=("protection", "by"), width=_WIDTH)
    notes = [
        f"labels found: by the strongest attacker, of a client's {attacked['samples']} samples; guesses: no more than "
        f"{plain['guessing']:.0%}, what guessing finds; unclear: too few attacked clients to tell (--seeds).",
        "as the paper: charged at python-paillier's cost. blinding only: whoever records a client's connection to the "
        "key server reads its upload (docs/security.md).",
    ]
    named = {row["strongest"] for row in report["rows"] if row["verdict"] == "learns"}
    notes += [f"{name}: {ADVERSARIES[name]}." for name in ADVERSARIES if name in named]
    for note in notes:
        click.echo(click.wrap_text(note, _WIDTH))
