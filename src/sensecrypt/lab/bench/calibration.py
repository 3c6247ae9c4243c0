"""`sensecrypt bench calibration`: whether a calibrated run predicts the time of the real one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import torch

from sensecrypt.client.problem import Problem, own_problem
from sensecrypt.config import make_config
from sensecrypt.lab.bench.table import Report, Shown, described
from sensecrypt.models import build_model
from sensecrypt.records import clients_of, servers_of
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import total_seconds
from sensecrypt.transports.local.result import Result
from sensecrypt.transports.local.run import run_local

CLIENTS, SAMPLES = 4, 64
KINDS = ("client encryption", "aggregation", "decryption", "device clock")


def run(*, repeats: int, on_step: Callable[[str], None]) -> Report:
    """Run one round of the MLP, all encrypted, in both modes alternately; medians and their ratios."""
    problem = _problem()
    times: dict[tuple[str, str], list[float]] = {}
    models, sizes, ciphertexts = set(), set(), 0
    for repeat in range(repeats):
        for mode in ("real", "calibrated"):
            on_step(f"repeat {repeat + 1} of {repeats}: {mode}")
            result = _run_mode(problem, mode)
            for kind, seconds in zip(KINDS, _parts(result), strict=True):
                times.setdefault((kind, mode), []).append(seconds)
            models.add(tuple(vector.tobytes() for vector in result.vectors))
            sizes.add(tuple(record.bytes_up for record in clients_of(result.log)))
            ciphertexts = sum(record.encrypted_blocks or 0 for record in result.played)
    rows = []
    for kind in KINDS:
        real, calibrated = (median(times[kind, mode]) for mode in ("real", "calibrated"))
        both = {"real_seconds": real, "calibrated_seconds": calibrated, "ratio": calibrated / real}
        rows.append({"part": kind, **both})
    same = {"same_models": len(models) == 1, "same_bytes": len(sizes) == 1}
    return {"repeats": repeats, "ciphertexts": ciphertexts, **same, "rows": rows}


def shown(report: Report) -> Iterator[Shown]:
    """The table, and whether models and sizes were the same."""
    yield described(
        "One round of the MLP, {ciphertexts:,} ciphertexts (medians of {repeats}, seconds)".format(**report),
        [
            ("method", "part"),
            ("real", "real_seconds:.4f"),
            ("calibrated", "calibrated_seconds:.4f"),
            ("ratio", "ratio:.2f"),
        ],
        report["rows"],
    )
    same = {True: "the same", False: "NOT the same"}
    yield f"Models are {same[report['same_models']]} to the byte, message sizes {same[report['same_bytes']]}."


def _problem() -> Problem:
    generator = torch.Generator().manual_seed(0)
    data = [
        (torch.rand(SAMPLES, 1, 28, 28, generator=generator), torch.arange(SAMPLES) % 10) for _ in range(CLIENTS + 1)
    ]
    return own_problem(build_model("mlp", seed=0), data[:-1], data[-1])


def _run_mode(problem: Problem, mode: str) -> Result:
    config = make_config(
        {"dataset": "own", "clients": CLIENTS, "rounds": 1, "policy": "full", "clustering": "none", "crypto": mode}
    )
    with tempfile.TemporaryDirectory() as folder:
        return run_local(config, RunFolder(Path(folder) / "run"), problem=problem)


def _parts(result: Result) -> tuple[float, float, float, float]:
    servers = servers_of(result.log)
    return (
        sum(record.encrypt_seconds or 0.0 for record in result.played),
        sum(record.add_seconds or 0.0 for record in servers),
        sum(record.decrypt_seconds or 0.0 for record in servers),
        total_seconds(result.times()),
    )
