"""`sensecrypt bench flower`: a simulated Flower app with and without protection, in one run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sensecrypt.errors import SenseCryptError
from sensecrypt.lab.bench import flowerapp
from sensecrypt.lab.bench.table import Table
from sensecrypt.lab.fleet.simulation import simulate


@dataclass(frozen=True)
class Row:
    """The measurements of one method.

    Attributes:
        method: `plain`, or the profile that protects updates.
        clients: the number of simulated clients.
        per_round: the number of clients that are sampled per round.
        rounds: the number of measured rounds.
        steps: of training, per client and round.
        seconds_per_round: the median.
        ratio: of the seconds to those of the plain app.
        bytes_per_reply: the mean.
    """

    method: str
    clients: int
    per_round: int
    rounds: int
    steps: int
    seconds_per_round: float
    ratio: float
    bytes_per_reply: float


def run(
    profiles: tuple[str, ...], *, clients: int, per_round: int, rounds: int, steps: int, on_step: Callable[[str], None]
) -> list[Row]:
    """Measure rounds of the plain app and of each profile in turn, in one simulation with one process per processor.

    The first round of each is not measured: in it Ray starts, modules are imported and keys are generated. Flower looks
    for replies every tenth of a second, so a round takes a multiple of that.
    """
    methods = (flowerapp.PLAIN, *profiles)
    on_step(f"{', '.join(methods)} in turn: {clients} clients, {per_round} per round, {rounds} rounds each")
    seconds, sizes = _simulate(methods, clients, per_round, rounds + 1, steps)
    rows: list[Row] = []
    for index, method in enumerate(methods):
        own = slice(index + len(methods), None, len(methods))
        typical = median(seconds[own])
        ratio = typical / rows[0].seconds_per_round if rows else 1.0
        bytes_per_reply = sum(sizes[own]) / (per_round * rounds)
        rows.append(Row(method, clients, per_round, rounds, steps, typical, ratio, bytes_per_reply))
    return rows


def shown(report: list[Row]) -> list[Table | str]:
    """The report as a table."""
    cells = [
        [row.method, f"{row.seconds_per_round:.2f}", f"{row.ratio:.2f}", f"{row.bytes_per_reply:,.0f}"]
        for row in report
    ]
    first = report[0]
    title = (
        f"{first.clients} simulated clients, {first.per_round} per round, {first.rounds} rounds of {first.steps} steps"
    )
    return [Table(title, ["method", "s per round", "times plain", "bytes per reply"], cells)]


def _simulate(
    methods: tuple[str, ...], clients: int, per_round: int, rounds: int, steps: int
) -> tuple[list[float], list[int]]:
    """The seconds of each round, and the bytes of all its replies."""
    with tempfile.TemporaryDirectory(prefix="bench-flower-") as name:
        folder = Path(name)
        out = folder / "out.json"
        _write_app(folder / "app", out, methods, per_round, rounds, steps)
        printed = simulate(folder / "app", folder / "home", clients=clients)
        if not out.exists():
            raise SenseCryptError(f"the simulation failed: {printed[-2000:]}")
        measured = json.loads(out.read_text(encoding="utf-8"))
        return measured["seconds"], measured["bytes"]


def _write_app(folder: Path, out: Path, methods: tuple[str, ...], per_round: int, rounds: int, steps: int) -> None:
    folder.mkdir()
    for part in ("client", "server"):
        text = f"from {flowerapp.__name__} import {part}_app\n\napp = {part}_app()\n"
        (folder / f"{part}_part.py").write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "bench-flower"\nversion = "1.0.0"\ndescription = ""\nlicense = "Apache-2.0"\n'
        'dependencies = []\n\n[tool.flwr.app]\npublisher = "bench"\n\n[tool.flwr.app.components]\n'
        'serverapp = "server_part:app"\nclientapp = "client_part:app"\n\n[tool.flwr.app.config]\n'
        f'num-server-rounds = {rounds}\nclients-per-round = {per_round}\nmethods = "{",".join(methods)}"\n'
        f"local-steps = {steps}\nout = {json.dumps(str(out))}\n",
        encoding="utf-8",
    )
