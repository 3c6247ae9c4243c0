"""Reads the folder of a run, on one machine or of a fleet's aggregator, finished or not."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, safe_open

from sensecrypt.config import RunConfig
from sensecrypt.errors import InvalidInput
from sensecrypt.records import SETUP, Evaluation, Record, Refusal, ServerRecord, clients_of, only_played
from sensecrypt.runs.clientmap import FILE as MAP
from sensecrypt.runs.clientmap import flat_map
from sensecrypt.runs.folder import RunFolder
from sensecrypt.runs.outcome import Outcome, absences, merge_accuracies

State = Literal["finished", "running", "failed"]
Places = dict[int, tuple[float, float]]

_FIX = "give the folder of a run: one that holds run.json"
_FIGURES = ("encrypted_share", "coverage", "bytes_up", "bytes_down")


@dataclass(frozen=True)
class Seen:
    """The contents of a run's folder.

    Attributes:
        path: the folder.
        outcome: of the finished rounds.
        state: of the run.
        failure: the error of a failed run.
        fleet: whether the aggregator of a fleet wrote the folder.
        absences: clients that took no part, and why nodes were refused.
        places: position of each client on the map of clusters, if known.
        attacks: rows of attacks, by file name.
    """

    path: Path
    outcome: Outcome
    state: State
    failure: str
    fleet: bool
    absences: list[str]
    places: Places
    attacks: dict[str, list[dict[str, Any]]]

    @property
    def rounds(self) -> int:
        """The number of finished rounds."""
        return 1 + max((record.round for record in self.outcome.records), default=-1)


def read_folder(path: Path) -> Seen:
    """Read a run's folder.

    Raises:
        InvalidInput: If it does not exist, holds no run or one of a newer version, or is damaged.
    """
    config = _config(path)
    lines = _records(path, config)
    header, rows = _checkpoint(path)
    ended = _json(path / "outcome.json")
    ended = ended if isinstance(ended, dict) else {}
    fleet = bool(ended) or rows is not None or any(isinstance(line, (Evaluation, Refusal)) for line in lines)
    fleet = fleet and header.get("one_machine") != "1"
    log = merge_accuracies(lines) if fleet else only_played(lines)
    labels, accuracy = _latest(log, config)
    outcome = Outcome(
        config=config,
        labels=labels,
        accuracy=accuracy,
        log=log,
        wall_seconds=ended.get("wall_seconds", math.nan),
        why_clusters=header.get("why", ""),
        model_sha256=ended.get("model_sha256", []),
        why_profile=RunFolder(path).why_profile,
    )
    failure = str(ended.get("error", ""))
    finished = bool(ended) or (path / f"model-{max(labels, default=0)}.safetensors").exists()
    state: State = "failed" if failure else "finished" if finished else "running"
    absent = absences(RunFolder(path), ended.get("clusters", labels)) if state != "running" else []
    return Seen(path, outcome, state, failure, fleet, absent, _places(path, rows), _attacks(path))


def stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, times and sizes of the files that a page is made of: differs after every change."""
    names = ("run.json", "records.jsonl", "outcome.json", "compare.json", MAP)
    more = [file for pattern in ("attack*.json", "model-*.safetensors") for file in sorted(path.glob(pattern))]
    files = [path / name for name in names] + more
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        found.append((file.name, status.st_mtime_ns, status.st_size))
    return tuple(found)


def _config(path: Path) -> RunConfig:
    if not path.exists():
        raise InvalidInput(str(path), "is not there", _FIX)
    if not path.is_dir():
        raise InvalidInput(str(path), "is no folder", _FIX)
    run = _json(path / "run.json")
    if run is None:
        raise InvalidInput(str(path), "is empty" if not any(path.iterdir()) else "holds no run", _FIX)
    if not isinstance(run, dict) or not isinstance(run.get("config"), dict) or "version" not in run:
        raise InvalidInput(str(path / "run.json"), "is no file of a run", _FIX)
    return RunFolder(path).read_config()


def _json(path: Path) -> Any:
    """The contents of a JSON file; None if it is missing or unreadable."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None


def _damaged(path: Path, where: str) -> InvalidInput:
    problem = f"is damaged: {where}"
    return InvalidInput(str(path / "records.jsonl"), problem, "restore it, or run again in another folder")


def _records(path: Path, config: RunConfig) -> list[Record]:
    """All complete lines; each has the figures that a page shows."""
    try:
        lines = RunFolder(path).records()
    except OSError:
        raise _damaged(path, "it cannot be read") from None
    for number, line in enumerate(lines, start=1):
        if not _is_possible(line, config.problem.clients):
            raise _damaged(path, f"near line {number}")
    return lines


def _is_possible(line: Record, clients: int) -> bool:
    """Whether a record belongs to a client of this run and has the figures that a page shows."""
    if line.round < SETUP:
        return False
    if isinstance(line, Evaluation):
        return 0 <= line.evaluated < clients
    if isinstance(line, Refusal):
        return True
    if isinstance(line, ServerRecord):
        return line.cluster >= -1
    figures = (line.encrypted_share, line.coverage, line.bytes_up, line.bytes_down)
    complete = line.round == SETUP or not line.counts or None not in figures
    return complete and 0 <= line.client < clients and line.cluster >= -1


def _is_whole(value: Any, low: int, high: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < high


def _latest(log: Sequence[Record], config: RunConfig) -> tuple[list[int], list[float]]:
    """Each client's cluster (−1: none yet) and last reported accuracy."""
    labels, accuracy = [-1] * config.problem.clients, [math.nan] * config.problem.clients
    for record in clients_of(log):
        labels[record.client] = record.cluster
        if record.accuracy is not None and not math.isnan(record.accuracy):
            accuracy[record.client] = record.accuracy
    return labels, accuracy


def _checkpoint(path: Path) -> tuple[dict[str, str], np.ndarray[Any, Any] | None]:
    """The checkpoint's header and the descriptions of a fleet's clients, without the models."""
    try:
        with safe_open(path / "checkpoint.safetensors", framework="numpy") as file:
            return dict(file.metadata() or {}), file.get_tensor("rows") if "rows" in file.keys() else None  # noqa: SIM118  (no dict)
    except (OSError, SafetensorError):
        return {}, None


def _places(path: Path, rows: np.ndarray[Any, Any] | None) -> Places:
    """From the run's map, a fleet's checkpoint, or kept messages."""
    known = _json(path / MAP)
    if known is None:
        rows = _kept_rows(path) if rows is None else rows
        known = flat_map(rows.astype(np.float64)) if rows is not None and rows.ndim == 2 and rows.size else []
    try:
        return {client: (float(x), float(y)) for client, (x, y) in enumerate(known)}
    except (TypeError, ValueError):
        raise InvalidInput(str(path / MAP), "is no map of clients", "remove it") from None


def _kept_rows(path: Path) -> np.ndarray[Any, Any] | None:
    """The clients' descriptions of their data, by client number; None unless messages were kept."""
    files = list((path / "messages" / f"round-{SETUP}").glob("description-*.safetensors"))
    rows = []
    try:
        for file in sorted(files, key=lambda each: int(each.stem.rpartition("-")[2])):
            with safe_open(file, framework="numpy") as released:
                rows.append(released.get_tensor("row"))
        return np.array(rows) if rows else None
    except (OSError, ValueError, SafetensorError):
        return None


def _attacks(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows of every attack*.json in the folder that has the format of `sensecrypt attack --json`."""
    found = {}
    for file in sorted(path.glob("attack*.json")):
        content = _json(file)
        rows = content.get("rows") if isinstance(content, dict) else None
        if isinstance(rows, list) and rows and all(isinstance(row, dict) and "adversary" in row for row in rows):
            found[file.stem] = rows
    return found
