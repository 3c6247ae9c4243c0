"""`sensecrypt bench …`: measurements against named peers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from sensecrypt.cli.needs import needs
from sensecrypt.cli.status import shown_status
from sensecrypt.cli.tables import show_table
from sensecrypt.extras import require
from sensecrypt.profiles import DEFAULT_PROFILE, PROFILES, get_profile

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
_seed = click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the instances.")
_LEFT = {"solver", "constraints", "method", "upload", "groups"}
_Options = Callable[[Any], Any]


def _repeats(default: int = 9) -> _Options:
    many = click.IntRange(1, 1000)
    return click.option("--repeats", default=default, show_default=True, type=many, help="Medians of.")


def _sizes(option: str, default: str, *, low: int, high: int | None = None, what: str) -> _Options:
    """A list of whole numbers."""

    def parse(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
        try:
            sizes = tuple(int(size) for size in text.split(","))
        except ValueError:
            raise click.BadParameter(f"{text!r} is not a list of whole numbers such as {default[:12]}") from None
        if min(sizes) < low or max(sizes) > (high or max(sizes)):
            allowed = f"at least {low}" if high is None else f"from {low} to {high}"
            raise click.BadParameter(f"every number must be {allowed}")
        return sizes

    return click.option(option, default=default, show_default=True, callback=parse, help=what)


def _model(default: str = "alexnet") -> _Options:
    return click.option("--model", default=default, show_default=True, help="A name in the zoo.")


@click.group()
def bench() -> None:
    """Measure speed and memory of this package and its peers in one run."""


def _bench(name: str, as_json: bool, run: Callable[[Any, Callable[[str], None]], Any]) -> None:
    """Measure with a module of `sensecrypt.lab.bench`; print its report, as JSON or as the tables it describes."""
    module = import_module(f"sensecrypt.lab.bench.{name}")
    with shown_status("starting") as update:
        report = run(module, update)
    if as_json:
        click.echo(json.dumps(report, default=asdict))
        return
    for part in module.shown(report):
        if isinstance(part, str):
            click.echo(part)
        else:
            show_table(part.title, part.headings, part.cells, left=_LEFT)


@bench.command()
@_sizes("--sizes", "10_000,100_000,1_000_000,10_000_000,23_705_252", low=3, what="Numbers of parameters.")
@_repeats()
@_seed
@_json
def selection(sizes: tuple[int, ...], repeats: int, seed: int, as_json: bool) -> None:
    """Selection against HiGHS on the LP relaxation, and its growth with the model."""
    _bench("selection", as_json, lambda module, say: module.run(sizes, repeats=repeats, seed=seed, on_step=say))


@bench.command()
@_sizes("--sizes", "20,200,2_000,10_000", low=3, what="Numbers of clients.")
@click.option("--real", "dataset", metavar="DATASET", help="Sketches of this data set, such as digits, not synthetic.")
@click.option("--partition", default="categories:4", show_default=True, help="How --real is split over the clients.")
@click.option("--model", default="", help="Of --real: a name in the zoo. [default: the data set's]")
@_repeats()
@_seed
@_json
def clustering(
    sizes: tuple[int, ...], dataset: str | None, partition: str, model: str, repeats: int, seed: int, as_json: bool
) -> None:
    """Clustering of client sketches against scikit-learn's plain methods, on synthetic or real data."""
    if dataset is not None:
        require("sensecrypt bench clustering --real", "torch")

    def run(module: Any, say: Callable[[str], None]) -> Any:
        real = None if dataset is None else module.RealData(dataset, partition, model)
        return module.run(sizes, repeats=repeats, seed=seed, on_step=say, real=real)

    _bench("clustering", as_json, run)


@bench.command()
@click.option(
    "--rows", default=256, show_default=True, type=click.IntRange(1, 100_000), help="Paillier ciphertexts per call."
)
@click.option("--plot", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Save a bar chart (PNG).")
@_repeats()
@_seed
@_json
@needs("lab", "ckks")
def crypto(rows: int, plot: Path | None, repeats: int, seed: int, as_json: bool) -> None:
    """Encryption, addition, decryption against python-paillier, pypaillier and TenSEAL, on one core."""

    def run(module: Any, say: Callable[[str], None]) -> Any:
        report = module.run(repeats=repeats, rows=rows, seed=seed, on_step=say)
        if plot is not None:
            module.plot(report, plot)
        return report

    _bench("crypto", as_json, run)


@bench.command()
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1, 1000), help="Means over.")
@_seed
@_json
def groups(runs: int, seed: int, as_json: bool) -> None:
    """The cost of fixed groups when clients drop out: released rounds, and updates in them."""
    _bench("groups", as_json, lambda module, say: module.run(runs=runs, seed=seed, on_step=say))


@bench.command()
@_model()
@_repeats()
@_seed
@_json
@needs("torch")
def blinding(model: str, repeats: int, seed: int, as_json: bool) -> None:
    """A blinded model against an encrypted and a plain one, on one core."""
    _bench("blinding", as_json, lambda module, say: module.run(model=model, repeats=repeats, seed=seed, on_step=say))


@bench.command()
@_model()
@_sizes("--challenges", "1,4,16", low=1, high=1000, what="Drawn per client.")
@_repeats()
@_seed
@_json
@needs("torch")
def projections(model: str, challenges: tuple[int, ...], repeats: int, seed: int, as_json: bool) -> None:
    """The cost of bounding each client's norm by random projections (not built), on one core."""

    def run(module: Any, say: Callable[[str], None]) -> Any:
        return module.run(model=model, challenges=challenges, repeats=repeats, seed=seed, on_step=say)

    _bench("projections", as_json, run)


@bench.command()
@click.option("--profile", default=DEFAULT_PROFILE, show_default=True, type=click.Choice(list(PROFILES)))
@_repeats()
@_seed
@_json
@needs("torch")
def protocol(profile: str, repeats: int, seed: int, as_json: bool) -> None:
    """One round of AlexNet step by step, next to the paper's; overhead of the protocol; memory of the aggregator."""
    _bench(
        "protocol",
        as_json,
        lambda module, say: module.run(profile=profile, repeats=repeats, seed=seed, on_step=say),
    )


_MODELS = ("mlp", "alexnet")


@bench.command()
@click.option("--model", "models", default=_MODELS, show_default=True, multiple=True, type=click.Choice(list(_MODELS)))
@click.option("--samples", default=200, show_default=True, type=click.IntRange(1, 100_000), help="As in the paper.")
@_repeats()
@_seed
@_json
@needs("torch")
def sensitivity(models: tuple[str, ...], samples: int, repeats: int, seed: int, as_json: bool) -> None:
    """The cost of the sensitivities of SenseCrypt, MaskCrypt and FedML-HE, next to the paper's figures."""

    def run(module: Any, say: Callable[[str], None]) -> Any:
        return module.run(models, samples=samples, repeats=repeats, seed=seed, on_step=say)

    _bench("sensitivity", as_json, run)


@bench.command()
@_repeats(5)
@_json
@needs("torch")
def calibration(repeats: int, as_json: bool) -> None:
    """A calibrated run against the real one: models and time."""
    _bench("calibration", as_json, lambda module, say: module.run(repeats=repeats, on_step=say))


@bench.command()
@click.option("--parameters", default=124_534, show_default=True, type=click.IntRange(1, 10**8), help="Of the model.")
@click.option("--clients", default=200, show_default=True, type=click.IntRange(3, 2000), help="That fetch it at once.")
@click.option("--workers", default=os.cpu_count() or 1, type=click.IntRange(1, 1024), help="Processes that decrypt.")
@_repeats(3)
@_seed
@_json
@needs("dkms")
def dkms(parameters: int, clients: int, workers: int, repeats: int, seed: int, as_json: bool) -> None:
    """The key service against bare decryption; many clients that fetch their model at once."""
    sizes = {"parameters": parameters, "clients": clients, "workers": workers}

    def run(module: Any, say: Callable[[str], None]) -> Any:
        return module.run(**sizes, repeats=repeats, seed=seed, on_step=say)

    _bench("dkms", as_json, run)


@bench.command()
@click.option("--profiles", default="ring-2048,paillier-2048", show_default=True, help="That protect the app.")
@click.option("--clients", default=100, show_default=True, type=click.IntRange(3, 10_000), help="Simulated ones.")
@click.option("--per-round", default=10, show_default=True, type=click.IntRange(3, 1000), help="Of these, sampled.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 1000), help="Played.")
@click.option(
    "--steps", default=200, show_default=True, type=click.IntRange(1), help="Of training, per client and round."
)
@_json
@needs("flower-simulation", "torch")
def flower(profiles: str, clients: int, per_round: int, rounds: int, steps: int, as_json: bool) -> None:
    """A simulated Flower app with and without SenseCrypt: seconds per round, bytes per reply."""

    def run(module: Any, say: Callable[[str], None]) -> Any:
        names = tuple(get_profile(name.strip()).name for name in profiles.split(","))
        return module.run(names, clients=clients, per_round=per_round, rounds=rounds, steps=steps, on_step=say)

    _bench("flower", as_json, run)
