"""Compares methods in one scenario: the same data, devices and training, one row per method.

The paper's fairness rule holds unless it is switched off: MaskCrypt's mask is as large as the union of SenseCrypt's
masks under the same preset and settings, if both take part.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from sensecrypt.client.problem import Problem, configured_problem
from sensecrypt.config import AUTO, RunConfig, change, to_settings
from sensecrypt.errors import InvalidInput
from sensecrypt.files import make_folder
from sensecrypt.lab.bench.stock import stock_cost_model
from sensecrypt.methods import Method
from sensecrypt.models import DEFAULT_MODEL
from sensecrypt.profiles import get_profile
from sensecrypt.records import servers_of
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.calibration import measure_cost_model
from sensecrypt.simulation.clock import CostModel, RoundTime, total_seconds
from sensecrypt.transports.local.result import Result
from sensecrypt.transports.local.run import run_local

VERSION = 1
REPORT, TRAINING = "compare.json", "training"
OnStep = Callable[[str, int, int], None]


def compare(
    scenario: str,
    methods: Sequence[Method],
    common: Mapping[str, Any],
    folder: Path,
    *,
    crypto: str = "auto",
    match_union: bool = True,
    resume: bool = False,
    on_step: OnStep | None = None,
    training: Path | None = None,
    problem: Problem | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Run every method; one row per method.

    Args:
        scenario: its name, for the report.
        methods: the methods.
        common: settings of all methods.
        folder: where their runs and the report go.
        crypto: `real`, `calibrated` or `auto`.
        match_union: whether MaskCrypt's ratio follows SenseCrypt's union of masks.
        resume: continue what is in `folder`.
        on_step: called after each round with method, number and number of rounds.
        training: folder of training results shared with other comparisons; None: temporary.
        problem: what to learn; None: as in the settings.
        command: that repeats the comparison, for the report.
    """
    settings = dict(common)
    configs = {each.name: each.configure(settings, crypto) for each in methods}  # all mistakes before any work
    if (folder / REPORT).exists() and not resume:
        raise InvalidInput(str(folder), "holds a comparison already", "choose another folder, or add --resume")
    shared = problem or configured_problem(next(iter(configs.values())))
    at_stock = any(each.stock(configs[each.name]) and each.policy != "plaintext" for each in methods)
    stock = stock_cost_model() if at_stock else None
    ours: dict[tuple[str, str, str], CostModel] = {}
    cache = training or folder / TRAINING
    rows: dict[str, dict[str, Any]] = {}
    unions: dict[tuple[str, ...], float] = {}
    for method in sorted(methods, key=lambda each: each.policy != "sensecrypt"):
        config = configs[method.name]
        matched = match_union and method.policy == "maskcrypt" and "ratio" not in {**common, **method.settings}
        if matched and method.variant in unions:
            config = method.configure({**settings, "ratio": unions[method.variant]}, crypto)
        own = shared if config.problem == next(iter(configs.values())).problem else None

        def on_round(number: int, *_: float, name: str = method.name, rounds: int = config.training.rounds) -> None:
            if on_step is not None:
                on_step(name, number + 1, rounds)

        if on_step is not None:
            on_step(method.name, 0, config.training.rounds)
        place = RunFolder(folder / method.slug)
        going_on = resume and place.exists()
        if going_on and config.encryption.profile == AUTO:
            config = change(config, {"profile": place.read_config().encryption.profile})
        if going_on and to_settings(place.read_config()) != to_settings(config):
            raise InvalidInput(str(place.path), "is a run with other settings", "choose another folder")
        make_folder(cache)
        cost_model = _our_cost_model(config, ours)
        result = run_local(
            config,
            place,
            problem=own,
            resume=going_on,
            on_round=on_round,
            cache=cache if problem is None else None,
            cost_model=cost_model,
        )
        if method.policy == "sensecrypt":
            unions[method.variant] = result.union_share
        rows[method.name] = _row(method, result, stock if method.stock(config) else None)
    first = next(iter(configs.values()))
    report = {
        "version": VERSION,
        "scenario": scenario,
        "dataset": first.problem.dataset,
        "model": first.problem.model or DEFAULT_MODEL[first.problem.dataset],
        "rounds": first.training.rounds,
        "clients": first.problem.clients,
        "devices": [first.device_name(client, 0) for client in range(first.problem.clients)],
        "server_cpus": first.machines.server_cpus,
        "command": command,
        "stock_cost_model": None if stock is None else vars(stock),
        "rows": [rows[each.name] for each in methods],
    }
    RunFolder(folder).write(REPORT, json.dumps(report, indent=1).encode())
    if training is None:
        shutil.rmtree(cache, ignore_errors=True)
    return report


def has_begun(folder: Path) -> bool:
    """Whether the folder has a comparison, finished or not."""
    return (folder / REPORT).exists() or (folder / TRAINING).exists()


def _our_cost_model(config: RunConfig, known: dict[tuple[str, str, str], CostModel]) -> CostModel | None:
    """The measured cost of this run's ciphertexts; measured once per kind of encryption."""
    real = config.encryption.crypto == "real" or config.encryption.profile == AUTO  # the run chooses, and measures
    if real or not config.policy.encrypts:
        return None
    chosen = config.encryption
    kind = (chosen.profile, chosen.key_mode, chosen.randomness)
    if kind not in known:
        known[kind] = measure_cost_model(
            chosen.profile, shared_key=chosen.key_mode == "shared-key", ahead=chosen.randomness == "ahead"
        )
    return known[kind]


def _row(method: Method, result: Result, cost_model: CostModel | None) -> dict[str, Any]:
    """One method's figures; with `cost_model`, charged by it, and by our own cost for reference."""
    summary, config = result.summary(), result.config
    encrypts = method.policy != "plaintext"
    times = result.times(cost_model if encrypts else None)
    rounds = [each for each in times if each.number >= 0]
    return {
        "name": method.name,
        "policy": method.policy,
        "preset": method.preset,
        "settings": method.settings,
        "device_seconds": total_seconds(times),
        "device_seconds_ours": total_seconds(result.times()) if cost_model is not None and encrypts else None,
        "setup_seconds": total_seconds(each for each in times if each.number < 0),
        "implementation": "python-paillier" if cost_model is not None and encrypts else "ours",
        "straggler_share": mean(each.straggler_share for each in rounds),
        "bytes_up": summary["bytes_up"],
        "bytes_down": summary["bytes_down"],
        "accuracy_mean": summary["accuracy"],
        "accuracy_min": min(result.accuracy),
        "accuracy_max": max(result.accuracy),
        "encrypted_share": summary["encrypted_share"],
        "median_encrypted_share": _median_client(result),
        "union_share": result.union_share,
        "under_covered_share": _under_covered(result),
        "coverage": summary["coverage"],
        "crypto": config.encryption.crypto,
        "ahead_seconds": _ahead(result),
        "ratio": config.selection.ratio,
        "clusters": len(result.vectors),
        "model_sha256": summary["model_sha256"],
        "rounds": [_round_row(each, result) for each in rounds],
        "timeline": _timeline(rounds[-1], result),
    }


def _median_client(result: Result) -> float:
    """The mean encrypted share of the median client."""
    shares: dict[int, list[float]] = {}
    for record in result.played:
        shares.setdefault(record.client, []).append(record.encrypted_share or 0.0)
    means = sorted(mean(each) for each in shares.values())
    return means[(len(means) - 1) // 2]


def _under_covered(result: Result) -> float:
    """Mean share of what a cluster encrypted that fewer than `min_contributors` of its clients did."""
    size = result.vectors[0].size
    blocks = -(-size // min(get_profile(result.config.encryption.profile).slots, size))
    served = [record for record in servers_of(result.log) if record.union_share]
    return float(
        mean(
            [(record.under_covered_blocks or 0) / ((record.union_share or 1.0) * blocks) for record in served] or [0.0]
        )
    )


def _ahead(result: Result) -> float:
    """Device seconds per round that the busiest client spends on randomness in advance; not in its round time."""
    spent = [
        ((record.ahead_seconds or 0.0) + (record.order_ahead_seconds or 0.0))
        / result.config.device(record.client, record.round).speed
        for record in result.played
    ]
    return max(spent, default=0.0)


def _round_row(time: RoundTime, result: Result) -> dict[str, Any]:
    records = [record for record in result.records if record.round == time.number]
    accuracies = [math.nan if record.accuracy is None else record.accuracy for record in records]
    played = [record for record in records if record.counts]
    return {
        "round": time.number,
        "seconds": time.seconds,
        "server_seconds": time.server_seconds,
        "straggler_share": time.straggler_share,
        "accuracy_mean": mean(accuracies),
        "accuracy_min": min(accuracies),
        "accuracy_max": max(accuracies),
        "encrypted_share": mean((record.encrypted_share or 0.0) for record in played),
        "encrypted_share_min": min((record.encrypted_share or 0.0) for record in played),
        "bytes_up": sum((record.bytes_up or 0) for record in played),
        "bytes_down": sum((record.bytes_down or 0) for record in played),
        "client_seconds_min": min(time.client_seconds),
        "client_seconds_mean": mean(time.client_seconds),
        "client_seconds_max": max(time.client_seconds),
    }


def _timeline(time: RoundTime, result: Result) -> list[dict[str, Any]]:
    """The steps of each client in a round, in device seconds."""
    config, devices = result.config, result.config.devices(time.number)
    shares = {record.client: record.encrypted_share or 0.0 for record in result.records if record.round == time.number}
    steps = ("train", "select", "encrypt", "upload", "wait", "download", "decrypt")
    return [
        {
            "client": client,
            "device": config.device_name(client, time.number),
            "cpus": devices[client].speed,
            "bandwidth": devices[client].bandwidth,
            "encrypted_share": shares[client],
            **{step: getattr(each, step) for step in steps},
        }
        for client, each in time.clients.items()
    ]
