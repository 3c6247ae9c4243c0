"""`sensecrypt advise`: which protection fits a model and a fleet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sensecrypt.cli.needs import needs
from sensecrypt.cli.run import choose_dataset, parse_settings
from sensecrypt.cli.status import shown_status
from sensecrypt.cli.tables import WIDTH, show_table
from sensecrypt.errors import InvalidInput

if TYPE_CHECKING:
    from sensecrypt.lab.compare.advice import Advice


@click.command()
@click.argument("model", required=False, metavar="[FILE.py:FUNCTION]")
@click.option("--dataset", help="As in `sensecrypt run`, without a model of your own.  [default: digits]")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="A setting, such as devices=laptop; repeatable."
)
@click.option("--batch", default=30, show_default=True, type=click.IntRange(2), help="Samples of attacked clients.")
@click.option("--distribution", help="Of their data: iid, or a number of classes.  [default: 3, or all if fewer]")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(2), help="How many clients are attacked.")
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
    """Recommend a protection for a model and a fleet, with its cost and what attackers find.

    With FILE.py:FUNCTION, the function returns your model (an nn.Module with one output per class), and a function
    `data` in the same file returns its inputs and labels. Without, a model of the paper is used. From Python:
    sensecrypt.advise(model, (inputs, labels)).

    Two rounds on the devices' clock give the cost; attacks on clients that encrypt as much as the weakest device give
    the protection.
    """
    settings = parse_settings(changes, None)
    if model is not None and (dataset is not None or "dataset" in settings):
        raise InvalidInput("--dataset", "is for models of the paper", f"leave it out, {model} brings its data")
    if model is not None and ":" not in model:
        raise InvalidInput("model", f"is {model!r}", "write FILE.py:FUNCTION, such as my_model.py:build")
    chosen = choose_dataset(dataset, settings)
    from sensecrypt.lab.compare import advice  # loads PyTorch
    from sensecrypt.lab.compare.subject import call_from_file, named_subject

    with shown_status("starting") as update:
        attacked: dict[str, Any] = {
            "samples": batch,
            "seeds": seeds,
            "distribution": distribution,
            "on_step": update,
        }
        if model is None:
            subject = named_subject(chosen, str(settings.get("model", "")))
            answer = advice.advise_subject(subject, {**settings, "dataset": chosen}, **attacked)
        else:
            built, data = call_from_file(model), call_from_file(model, "data")
            answer = advice.advise(built, data, settings=settings, **attacked)
    if as_json:
        click.echo(json.dumps({"recommendation": answer.text, **answer.report}))
    else:
        show(answer)


def show(answer: Advice) -> None:
    """The recommendation, the table, and what its words mean."""
    from sensecrypt.lab.compare.wording import attack_cell, round_seconds, spoken

    report = answer.report
    rows: list[Mapping[str, Any]] = report["rows"]
    click.echo(click.wrap_text(answer.text, WIDTH) + "\n")
    lines = [
        (
            row["label"],
            spoken(round_seconds(row)),
            f"{round_seconds(row) / round_seconds(rows[0]):,.1f}",
            f"{row['weakest_share']:.0%}",
            f"{row['found']:.0%}",
            attack_cell(row),
        )
        for row in rows
    ]
    kinds = ", ".join(dict.fromkeys(report["devices"]))
    show_table(
        f"{report['model']}, {report['clients']} clients: {kinds}",
        ("protection", "a round", "x plain", "encrypted", "found", "by"),
        lines,
        left=("protection", "by"),
    )
    attacked = report["attacked"]
    notes = (
        f"a round: device time of the last of {report['rounds']}, server of {report['server_cpus']:g} CPUs. "
        "(paper): charged at python-paillier's measured cost.",
        "encrypted: share of the model on the device that encrypts least.",
        f"found: share of the labels, by the strongest attack on {attacked['seeds']} clients of "
        f"{attacked['samples']} samples. guessing: no attack finds more than guessing, {rows[0]['guessing']:.0%}. "
        "unclear: too few attacked clients to say (--seeds).",
        "blinding only: whoever records a client's connection to the key server can read its update.",
    )
    click.echo()
    for note in notes:
        click.echo(click.wrap_text(note, WIDTH, "", "  "))
