"""`sensecrypt advise`: which preset for a model and a fleet."""

from __future__ import annotations

import json
from typing import Any

import click

from sensecrypt.cli.run import choose_dataset, parse_settings
from sensecrypt.cli.status import shown_status
from sensecrypt.cli.tables import show_table


@click.command()
@click.option("--dataset", help="As in `sensecrypt run`.  [default: digits]")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A setting, such as cpus=8,4,1; repeatable.")
@click.option("--batch", default=30, show_default=True, type=click.IntRange(2), help="Samples of attacked clients.")
@click.option("--distribution", default="iid", show_default=True, help="Of their data: iid, or a number of classes.")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(2), help="Attacked clients a figure.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def advise(
    dataset: str | None, changes: tuple[str, ...], batch: int, distribution: str, seeds: int, as_json: bool
) -> None:
    """Say what each preset costs on your devices, and what it protects against whom.

    Two calibrated rounds tell the cost; attacks on clients that encrypt as much as your weakest device tell the
    protection. All figures are measured for this answer.
    """
    settings = parse_settings(changes, None)
    settings["dataset"] = choose_dataset(dataset, settings)
    from sensecrypt.lab.compare.advice import advise as measure  # loads PyTorch

    with shown_status("starting") as update:
        report = measure(settings, samples=batch, seeds=seeds, distribution=distribution, on_step=update)
    if as_json:
        click.echo(json.dumps(report))
        return
    _show(report)


def _show(report: dict[str, Any]) -> None:
    names = list(dict.fromkeys(each["adversary"] for entry in report["entries"] for each in entry["adversaries"]))
    title = (
        f"{report['dataset']}, {report['model']}; attacked clients: {report['distribution']}, {report['seeds']} seeds"
    )
    lines = []
    for entry in report["entries"]:
        found = {each["adversary"]: each for each in entry["adversaries"]}
        lines.append(
            (
                entry["preset"],
                f"{entry['round_seconds']:.3g} s",
                f"{entry['times_plaintext']:.2f} times",
                f"{entry['weakest_share']:.0%}",
                *(_found(found.get(name)) for name in names),
            )
        )
    columns = ("preset", "a round", "of plaintext", "weakest client encrypts", *names)
    show_table(title, columns, lines, left=("preset",), width=160)
    click.echo(
        "Figures are the share of a client's labels that an adversary finds; `guesses` means no more than the prior's "
        f"{report['entries'][0]['prior']['irec']:.2f}. The preset paper is charged at python-paillier's cost. "
        "`collusion` is the aggregator with one client; see docs/security.md."
    )


def _found(adversary: dict[str, Any] | None) -> str:
    if adversary is None:
        return ""
    return f"{adversary['irec']:.2f}" if adversary["learns"] else "guesses"
