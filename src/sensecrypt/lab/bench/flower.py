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
    """One way to play the app.

    Attributes:
        method: `plain`, or the profile that protects it.
        clients: simulated ones.
        per_round: of these, sampled in each round.
        rounds: played.
        steps: of training that a client makes in a round.
        seconds_per_round: the median.
        ratio: of that to the plain app's.
        bytes_per_reply: on average.
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
    """The plain app, then each profile; one simulation each, with as many processes as there are processors.

    Flower looks for replies every tenth of a second: rounds that take less are not told apart.
    """
    rows: list[Row] = []
    for method in ("plain", *profiles):
        on_step(f"{method}: {clients} clients, {per_round} per round, {rounds} rounds")
        seconds, sizes = _simulate(method, clients, per_round, rounds, steps)
        typical = median(seconds)
        ratio = typical / rows[0].seconds_per_round if rows else 1.0
        rows.append(Row(method, clients, per_round, rounds, steps, typical, ratio, sum(sizes) / (per_round * rounds)))
    return rows


def shown(report: list[Row]) -> list[Table | str]:
    """The table."""
    cells = [
        [row.method, f"{row.seconds_per_round:.2f}", f"{row.ratio:.2f}", f"{row.bytes_per_reply:,.0f}"]
        for row in report
    ]
    first = report[0]
    title = (
        f"{first.clients} simulated clients, {first.per_round} per round, {first.rounds} rounds of {first.steps} steps"
    )
    return [Table(title, ["method", "s per round", "times plain", "bytes per reply"], cells)]


def _simulate(method: str, clients: int, per_round: int, rounds: int, steps: int) -> tuple[list[float], list[int]]:
    with tempfile.TemporaryDirectory(prefix="bench-flower-") as name:
        folder = Path(name)
        out = folder / "out.json"
        _write_app(folder / "app", out, method, per_round, rounds, steps)
        printed = simulate(folder / "app", folder / "home", clients=clients)
        if not out.exists():
            raise SenseCryptError(f"the simulation failed: {printed[-2000:]}")
        told = json.loads(out.read_text(encoding="utf-8"))
        return told["seconds"], told["bytes"]


def _write_app(folder: Path, out: Path, method: str, per_round: int, rounds: int, steps: int) -> None:
    folder.mkdir()
    protected = method != "plain"
    for part in ("client", "server"):
        text = f"from {flowerapp.__name__} import {part}_app\n\napp = {part}_app(protected={protected})\n"
        (folder / f"{part}_part.py").write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "bench-flower"\nversion = "1.0.0"\ndescription = ""\nlicense = "Apache-2.0"\n'
        'dependencies = []\n\n[tool.flwr.app]\npublisher = "bench"\n\n[tool.flwr.app.components]\n'
        'serverapp = "server_part:app"\nclientapp = "client_part:app"\n\n[tool.flwr.app.config]\n'
        f'num-server-rounds = {rounds}\nclients-per-round = {per_round}\nprofile = "{method}"\n'
        f"local-steps = {steps}\nout = {json.dumps(str(out))}\n",
        encoding="utf-8",
    )
