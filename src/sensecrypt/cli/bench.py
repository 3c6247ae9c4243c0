"""`sensecrypt bench …`: measurements against named peers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from sensecrypt.cli.status import shown_status
from sensecrypt.errors import MissingExtra

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
_repeats = click.option("--repeats", default=9, show_default=True, type=click.IntRange(1, 1000), help="Medians of.")
_seed = click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the instances.")


def _sizes(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size.replace("_", "")) for size in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 10000,100000") from None
    if min(sizes) < 3:
        raise click.BadParameter("every size must be at least 3")
    return sizes


def _counts(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(count) for count in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 1,4,16") from None
    if not 1 <= min(counts) <= max(counts) <= 1000:
        raise click.BadParameter("every count must be from 1 to 1000")
    return counts


@click.group()
def bench() -> None:
    """Measure speed and memory, ours and the peers' in one run."""


@bench.command()
@click.option("--sizes", default="10_000,100_000,1_000_000,10_000_000,23_705_252", show_default=True, callback=_sizes)
@_repeats
@_seed
@_json
def selection(sizes: tuple[int, ...], repeats: int, seed: int, as_json: bool) -> None:
    """Selection against HiGHS on the LP relaxation, and its growth with the model."""
    from sensecrypt.lab.bench import selection as module

    with shown_status("starting") as update:
        report = module.run(sizes, repeats=repeats, seed=seed, on_step=update)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    for row in report.against_highs:
        _show(
            f"Selection of {row.parameters:,} parameters (medians of {repeats})",
            ("solver", "constraints", "seconds", "HiGHS ÷ ours", "objective"),
            [
                ("HiGHS, LP relaxation", "budget, security", f"{row.highs_seconds:.4f}", "", row.highs_lower_bound),
                ("ours", "budget, security", f"{row.ours_seconds:.4f}", f"{row.ratio:.0f}", row.ours_objective),
                (
                    "ours",
                    "budget, security, MI",
                    f"{row.ours_with_mi_seconds:.4f}",
                    f"{row.ratio_with_mi:.0f}",
                    f"{row.objective_with_mi:.6f} (gap {row.gap_with_mi:.1g}, decided by {row.decided_by_with_mi})",
                ),
            ],
        )
    _show(
        "Growth, all three constraints (one call each, in its own process)",
        ("parameters", "seconds", "µs a parameter", "peak MB"),
        [
            (
                f"{row.parameters:,}",
                f"{row.seconds:.3f}",
                f"{row.microseconds_per_parameter:.3f}",
                f"{row.peak_mb:,.0f}",
            )
            for row in report.growth
        ],
    )


@bench.command()
@click.option("--sizes", default="20,200,2_000,10_000", show_default=True, callback=_sizes, help="Numbers of clients.")
@click.option("--real", "dataset", metavar="DATASET", help="Sketches of this data set, such as digits, not synthetic.")
@click.option("--partition", default="categories:4", show_default=True, help="How --real is split over the clients.")
@click.option("--model", default="", help="Of --real: a name in the zoo. [default: the data set's]")
@_repeats
@_seed
@_json
def clustering(
    sizes: tuple[int, ...],
    dataset: str | None,
    partition: str,
    model: str,
    repeats: int,
    seed: int,
    as_json: bool,
) -> None:
    """Clustering of client sketches against scikit-learn's plain methods, on synthetic or real data."""
    from sensecrypt.lab.bench import clustering as module

    real = None if dataset is None else module.RealData(dataset, partition, model)
    with shown_status("starting") as update:
        report = module.run(sizes, repeats=repeats, seed=seed, on_step=update, real=real)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    _show(
        f"Clustering sketches of {module.SKETCH_SIZE} numbers, {report.data} "
        f"(one sketch of {report.sketch_parameters:,} parameters: {1e3 * report.sketch_seconds:.1f} ms)",
        ("clients", "method", "seconds", "÷ ours", "peak MB", "clusters", "ARI"),
        [
            (
                f"{row.clients:,}",
                row.method,
                f"{row.seconds:.2f}",
                f"{row.ratio:.2f}",
                f"{row.peak_mb:,.0f}",
                row.clusters,
                "" if row.ari is None else f"{row.ari:.3f}",
            )
            for row in report.rows
        ],
    )
    for row in report.rows:
        if row.why:
            click.echo(f"{row.clients:,} clients: {row.why}")


@bench.command()
@click.option(
    "--rows", default=256, show_default=True, type=click.IntRange(1, 100_000), help="Paillier ciphertexts a call."
)
@click.option("--plot", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Save a bar chart (PNG).")
@_repeats
@_seed
@_json
def crypto(rows: int, plot: Path | None, repeats: int, seed: int, as_json: bool) -> None:
    """Encryption, addition, decryption against python-paillier, pypaillier and TenSEAL, on one core."""
    from sensecrypt.lab.bench import crypto as module

    with shown_status("starting") as update:
        report = module.run(repeats=repeats, rows=rows, seed=seed, on_step=update)
    if plot is not None:
        module.plot(report, plot)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    columns = ("method", "bytes", "encrypt 1 ct", "ratio", "encrypt", "ratio", "add", "ratio", "decrypt", "ratio")
    _show(
        f"µs a value on one core; ratio: how many times as long {module.REFERENCE} takes (medians of {repeats})",
        columns,
        [
            (
                row.name,
                f"{row.bytes_per_value:.2f}",
                *_timed(row.encrypt_us_per_ciphertext, row.encrypt_ratio_per_ciphertext),
                *_timed(row.encrypt_us, row.encrypt_ratio),
                *_timed(row.add_us, row.add_ratio),
                *_timed(row.decrypt_us, row.decrypt_ratio),
            )
            for row in report.rows
        ],
    )


@bench.command()
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1, 1000), help="Means over.")
@_seed
@_json
def groups(runs: int, seed: int, as_json: bool) -> None:
    """What fixed groups cost when clients drop out: rounds that are released, and updates in them."""
    from sensecrypt.lab.bench import groups as module

    with shown_status("starting") as update:
        rows = module.run(runs=runs, seed=seed, on_step=update)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows]))
        return
    _show(
        f"100 rounds, one attempt each, min_contributors {module.LEAST}, quorum {module.QUORUM} (means of {runs} runs)",
        ("clients", "drop out", "groups", "rounds released", "updates used"),
        [(row.clients, f"{row.dropout:.0%}", row.way, f"{row.released:.1%}", f"{row.used:.1%}") for row in rows],
    )


@bench.command()
@click.option("--model", default="alexnet", show_default=True, help="A name in the zoo.")
@_repeats
@_seed
@_json
def blinding(model: str, repeats: int, seed: int, as_json: bool) -> None:
    """A model that is blinded against one that is encrypted and one in the open, on one core."""
    from sensecrypt.lab.bench import blinding as module

    with shown_status("starting") as update:
        report = module.run(model=model, repeats=repeats, seed=seed, on_step=update)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    plain = report.rows[0]
    _show(
        f"{report.model}, {report.parameters:,} parameters, {report.clients} clients, one core; ratio: to plain "
        f"(medians of {repeats})",
        ("method", "client, ms", "ratio", "aggregator an upload, ms", "ratio", "key server, ms", "ratio", "bytes up"),
        [
            (
                row.way,
                *_against(row.protect_seconds, plain.protect_seconds),
                *_against(row.add_seconds, plain.add_seconds),
                *_against(row.release_seconds, plain.release_seconds),
                f"{row.upload_bytes:,}",
            )
            for row in report.rows
        ],
    )


@bench.command()
@click.option("--model", default="alexnet", show_default=True, help="A name in the zoo.")
@click.option("--challenges", default="1,4,16", show_default=True, callback=_counts, help="Drawn per client.")
@_repeats
@_seed
@_json
def projections(model: str, challenges: tuple[int, ...], repeats: int, seed: int, as_json: bool) -> None:
    """What bounding each client's norm by random projections would cost, which is not built; on one core."""
    from sensecrypt.lab.bench import projections as module

    with shown_status("starting") as update:
        report = module.run(model=model, challenges=challenges, repeats=repeats, seed=seed, on_step=update)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    _show(
        f"{report.model}, {report.parameters:,} parameters, per client, one core; ratio: to adding the upload once "
        f"(medians of {repeats})",
        ("upload", "challenges", "add, ms", "project, ms", "ratio", "key server, ms", "bytes more", "kept", "error"),
        [
            (
                row.way,
                row.challenges,
                f"{1e3 * row.add_seconds:.2f}",
                *_against(row.project_seconds, row.add_seconds),
                f"{1e3 * row.server_seconds:.2f}",
                f"{row.extra_bytes:,}",
                f"{row.kept_bytes:,}",
                f"{row.error:.1%}",
            )
            for row in report.rows
        ],
    )
    most = max(row.projections for row in report.rows)
    click.echo(
        f"The key server would learn up to {most:,} linear combinations of each client's update, and the aggregator "
        "keep every upload until the challenge is drawn."
    )


def _against(seconds: float, reference: float) -> tuple[str, str]:
    return f"{1e3 * seconds:.2f}", f"{seconds / reference:.2f}"


@bench.command()
@_repeats
@_seed
@_json
def protocol(repeats: int, seed: int, as_json: bool) -> None:
    """One round of AlexNet step by step, next to the paper's; what the protocol adds; the aggregator's memory."""
    from sensecrypt.lab.bench import protocol as module

    with shown_status("starting") as update:
        report = module.run(repeats=repeats, seed=seed, on_step=update)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    _show(
        f"One round of {report.model}, all {report.parameters:,} parameters encrypted in {report.ciphertexts:,} "
        f"ciphertexts, one core (medians of {repeats}, seconds)",
        ("method", "paper", "ours", "bare calls"),
        [
            (
                step.name,
                "" if step.paper_seconds is None else f"{step.paper_seconds:.1f}",
                f"{step.seconds:.3f}",
                "" if step.bare_seconds is None else f"{step.bare_seconds:.3f}",
            )
            for step in report.steps
        ],
    )
    click.echo(f"The protocol adds {report.overhead:.0%} to the bare calls.")
    for each in report.memory:
        click.echo(
            f"Aggregating {each.clients} uploads: peak {each.peak_mb:.0f} MB, of which {each.grown_mb:.1f} to add."
        )


@bench.command()
@click.option(
    "--model",
    "models",
    default=("mlp", "alexnet"),
    show_default=True,
    multiple=True,
    type=click.Choice(["mlp", "alexnet"]),
)
@click.option("--samples", default=200, show_default=True, type=click.IntRange(1, 100_000), help="As in the paper.")
@_repeats
@_seed
@_json
def sensitivity(models: tuple[str, ...], samples: int, repeats: int, seed: int, as_json: bool) -> None:
    """What the sensitivities of SenseCrypt, MaskCrypt and FedML-HE cost, next to the paper's figures."""
    from sensecrypt.lab.bench import sensitivity as module

    with shown_status("starting") as update:
        report = module.run(models, samples=samples, repeats=repeats, seed=seed, on_step=update)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    for measured in report.models:
        _show(
            f"Sensitivity of {measured.parameters:,} parameters ({measured.model}) on {measured.samples:,} samples, "
            f"gradients included, one core (medians of {repeats}, seconds)",
            ("method", "paper", "here"),
            [
                (
                    row.method,
                    "" if row.paper_seconds is None else f"{row.paper_seconds:,.0f}",
                    f"about {row.seconds:,.0f}, extrapolated" if row.extrapolated else f"{row.seconds:.4f}",
                )
                for row in measured.rows
            ],
        )
        click.echo(
            f"Extrapolated: {report.timed_passes} of {measured.parameters * measured.samples:,} backward passes were "
            f"timed. Our map of FedML-HE's measure needs {measured.map_mb:.0f} MB."
        )


@bench.command()
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1, 1000), help="Medians of.")
@_json
def calibration(repeats: int, as_json: bool) -> None:
    """Whether a calibrated run tells the models and the time of the real one."""
    from sensecrypt.lab.bench import calibration as module

    with shown_status("starting") as update:
        report = module.run(repeats=repeats, on_step=update)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    _show(
        f"One round of the MLP, {report.ciphertexts:,} ciphertexts (medians of {repeats}, seconds)",
        ("method", "real", "calibrated", "ratio"),
        [
            (row.part, f"{row.real_seconds:.4f}", f"{row.calibrated_seconds:.4f}", f"{row.ratio:.2f}")
            for row in report.rows
        ],
    )
    same = {True: "the same", False: "NOT the same"}
    click.echo(f"Models are {same[report.same_models]} to the byte, message sizes {same[report.same_bytes]}.")


@bench.command()
@click.option("--parameters", default=124_534, show_default=True, type=click.IntRange(1, 10**8), help="Of the model.")
@click.option("--clients", default=200, show_default=True, type=click.IntRange(2, 2000), help="That fetch it at once.")
@click.option("--workers", default=os.cpu_count() or 1, type=click.IntRange(1, 1024), help="Processes that decrypt.")
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1, 1000), help="Medians of.")
@_seed
@_json
def dkms(parameters: int, clients: int, workers: int, repeats: int, seed: int, as_json: bool) -> None:
    """The key service against the bare decryption; many clients that fetch their model at once."""
    try:
        from sensecrypt.lab.bench import dkms as module
    except ImportError:
        raise MissingExtra("this benchmark", "dkms") from None

    with shown_status("starting") as update:
        report = module.run(
            parameters=parameters, clients=clients, workers=workers, repeats=repeats, seed=seed, on_step=update
        )
    if as_json:
        click.echo(json.dumps({**asdict(report), "ratio": report.ratio}))
        return
    _show(
        f"Decrypting a sum of {report.parameters:,} parameters in {report.ciphertexts:,} ciphertexts, {report.workers} "
        f"process(es) (medians of {repeats}, seconds)",
        ("method", "seconds", "ratio"),
        [
            ("bare calls", f"{report.bare_seconds:.3f}", ""),
            ("through the service, verified", f"{report.service_seconds:.3f}", f"{report.ratio:.2f}"),
        ],
    )
    click.echo(
        f"{report.clients} clients fetch {report.fetch_bytes / 1e6:.2f} MB each at once, over new connections: half "
        f"within {report.fetch_p50_seconds:.2f} s, 99 % within {report.fetch_p99_seconds:.2f} s."
    )
    click.echo(
        f"They fetch a seed and hand in a tag: half within {report.tag_p50_seconds:.2f} s, 99 % within "
        f"{report.tag_p99_seconds:.2f} s. The service's process took {report.memory_megabytes:,.0f} MB at most."
    )


def _timed(microseconds: float | None, ratio: float | None) -> tuple[str, str]:
    if microseconds is None or ratio is None:
        return "", ""
    return f"{microseconds:,.{3 if microseconds < 10 else 0}f}", f"{ratio:,.{0 if ratio >= 10 else 1}f}"


def _show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("solver", "constraints", "method") else "right")
    for row in rows:
        table.add_row(*(f"{cell:.6f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=max(120, Console().width)).print(table)
