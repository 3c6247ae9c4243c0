"""`sensecrypt attack`: what adversaries learn from a recorded run or from synthetic clients."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from sensecrypt import checks
from sensecrypt.cli.needs import needs
from sensecrypt.cli.status import shown_status
from sensecrypt.cli.tables import WIDTH, show_table
from sensecrypt.config import RunConfig
from sensecrypt.errors import InvalidInput

FIGURES = {
    "leacc": "share of the classes whose presence or absence was found",
    "lnacc": "share of the classes whose exact count was found",
    "irec": "share of the client's labels that were found",
    "distance": "between guessed and true shares of the classes: 0 equal, 1 disjoint",
    "top1": "how often the most frequent class was found",
    "psnr": "of recovered images in dB; larger is closer to the true ones",
    "ssim": "similarity of recovered and true images; 1 equal",
}
ROLES = ("eavesdropper", "aggregator", "aggregator+client")


@click.command()
@click.option("--run", "run_folder", type=click.Path(path_type=Path), help="A run made with --set messages=keep.")
@click.option("--round", "number", default=0, show_default=True, type=click.IntRange(0), help="Of the run.")
@click.option("--client", default=0, show_default=True, type=click.IntRange(0), help="Of the run.")
@click.option("--adversary", type=click.Choice(ROLES), default="aggregator", show_default=True, help="In the run.")
@click.option("--model", default="lenet5", show_default=True, help="Without a run: a name in the zoo, or dlg.")
@click.option("--dataset", default="mnist", show_default=True)
@click.option("--batch", default=30, show_default=True, type=click.IntRange(1), help="Samples of the client.")
@click.option("--share", "shares", default="0.031", show_default=True, help="Encrypted shares, separated by commas.")
@click.option(
    "--policy",
    "policies",
    default="sensecrypt@paper,sensecrypt",
    show_default=True,
    help="policy[@preset][+rest=blinded|plain], separated by commas.",
)
@click.option("--distribution", "distributions", default="iid", show_default=True, help="iid, or numbers of classes.")
@click.option(
    "--attacks",
    default="labels",
    show_default=True,
    help="`labels` (the ladder), `all` (and dlg, idlg, inverting: batches of up to 8), or names of either.",
)
@click.option("--seeds", default=30, show_default=True, type=click.IntRange(1), help="Clients per row.")
@click.option("--seed", "first_seed", default=0, show_default=True, type=click.IntRange(0), help="The first of them.")
@click.option("--steps", default=1, show_default=True, type=click.IntRange(1), help="Local steps; 1 is FedSGD.")
@click.option("--trained", default=0, show_default=True, type=click.IntRange(0), help="Steps the model was trained.")
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--effort", default=300, show_default=True, type=click.IntRange(1), help="Steps of image attacks.")
@click.option("--pictures", type=click.Path(dir_okay=False, path_type=Path), help="A PNG of recovered images.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@needs("torch")
def attack(
    run_folder: Path | None,
    number: int,
    client: int,
    adversary: str,
    model: str,
    dataset: str,
    batch: int,
    shares: str,
    policies: str,
    distributions: str,
    attacks: str,
    seeds: int,
    first_seed: int,
    steps: int,
    trained: int,
    workers: int,
    effort: int,
    pictures: Path | None,
    as_json: bool,
) -> None:
    """Attack a client; print what attacks find next to guessing.

    With --run: one client of a recorded run, with the messages that the adversary received. Without: synthetic clients
    whose masks the policies choose. The first rows are guessing (prior) and attacks on plaintext. Half-widths are of
    95 % confidence intervals over the seeds.
    """
    if run_folder is not None:
        from sensecrypt.lab.assess.recorded import recorded_rows
        from sensecrypt.runs.folder import RunFolder

        folder = RunFolder(run_folder)
        rows = recorded_rows(folder, number=number, client=client, adversary=adversary)
        title = (
            f"{_problem(folder.read_config())}; client {client} of {run_folder} in round {number}, seen as {adversary}"
        )
        name = f"attack-round-{number}-client-{client}-{adversary}.json"
        folder.write(name, json.dumps({"rows": [_finite(row) for row in rows]}).encode())  # for the run's report
    else:
        from sensecrypt.lab.assess.table import attack_rows

        state = f"trained for {trained} steps" if trained else "untrained"
        last = first_seed + seeds - 1
        title = f"{dataset}, {model}, {state}; batch {batch}, local steps {steps}, seeds {first_seed} to {last}"
        console = Console(stderr=True)
        with shown_status("attacking", console) as update:
            rows = attack_rows(
                model,
                dataset,
                samples=batch,
                seeds=seeds,
                first_seed=first_seed,
                protections=_protections(policies, shares),
                distributions=_words(distributions),
                attacks=_words(attacks),
                steps=steps,
                trained=trained,
                workers=workers,
                effort=effort,
                pictures=pictures,
                on_step=lambda what, done: update(f"{what}: client {done} of {seeds}"),
                on_note=partial(console.print, markup=False, highlight=False, soft_wrap=True),
            )
    if as_json:
        click.echo(json.dumps({"rows": [_finite(row) for row in rows]}))
    else:
        _show(rows, title)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _protections(policies: str, shares: str) -> list[Any]:
    from sensecrypt.lab.assess.protection import Protection
    from sensecrypt.methods import parse_methods

    numbers = []
    for text in shares.split(","):
        try:
            numbers.append(checks.number("--share", float(text), low=0.0, high=1.0))
        except ValueError:
            raise InvalidInput("--share", f"is {text!r}", "give numbers from 0 to 1, such as 0.031,0.5") from None
    methods = parse_methods(policies, "default")
    if any(each.settings.keys() - {"rest"} for each in methods):
        fix = "give policy@preset, or policy@preset+rest=plain; the share is --share"
        raise InvalidInput("--policy", f"is {policies!r}", fix)
    fixed = {"plaintext": 0.0, "full": 1.0}
    return list(
        dict.fromkeys(
            Protection(each.policy, each.preset, fixed.get(each.policy, share), each.settings.get("rest"))
            for each in methods
            for share in numbers
        )
    )


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: a single seed has no half-width."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def _problem(config: RunConfig) -> str:
    from sensecrypt.models import DEFAULT_MODEL

    return f"{config.problem.dataset}, {config.problem.model or DEFAULT_MODEL[config.problem.dataset]}"


def _show(rows: list[dict[str, Any]], title: str) -> None:
    figures = [name for name in FIGURES if any(name in row for row in rows)]
    click.secho(title, bold=True)
    for target, group in groupby(rows, key=_target):
        click.echo()
        lines = [(row["adversary"], *(_figure(row, name) for name in figures)) for row in group]
        show_table(target, ("attack", *figures), lines, left=("attack",))
    notes = [f"{figure}: {FIGURES[figure]}" for figure in figures]
    notes.append("prior: guessing without an upload; an attack that finds no more has learnt nothing")
    if rows and "recovered" in rows[0]:
        notes.append(
            f"{rows[0]['attributed']:.1%} of the parameters are visible and in place; {rows[0]['recovered']:.1%} of "
            "the encrypted ones are recovered by subtraction"
        )
    click.echo()
    for note in notes:
        click.echo(click.wrap_text(note, WIDTH, "", "  "))


def _target(row: dict[str, Any]) -> str:
    """Whom the attacks of a table are on."""
    policy = f"{row['policy']} ({row['preset']})" if "policy" in row else row["role"]
    rest = f", rest {row['rest']}" if row["share"] < 1 else ""
    clients = "" if row["distribution"] == "run" else f", clients {row['distribution']}"
    return f"{row['attack']}: {policy}, {row['share']:.1%} encrypted{rest}{clients}"


def _figure(row: dict[str, Any], name: str) -> str:
    """A figure with its half-width, if several seeds gave one."""
    if name not in row:
        return ""
    half = row.get(f"{name}_half")
    return f"{row[name]:.2f}" if half is None or math.isnan(half) else f"{row[name]:.2f} ±{half:.2f}"
