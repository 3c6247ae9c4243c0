"""What came of a run of a fleet, in the aggregator's folder: for whoever submitted it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sensecrypt.errors import SenseCryptError
from sensecrypt.records import ClientRecord, Evaluation, Played, Record, Refusal, clients_of, only_played
from sensecrypt.runs.folder import RunFolder
from sensecrypt.runs.outcome import Outcome


def write_outcome(folder: RunFolder, labels: list[int], why: str, digests: list[str], seconds: float) -> None:
    """The run is over."""
    fields = {
        "model_sha256": digests,
        "clusters": labels,
        "why": why,
        "wall_seconds": seconds,
    }
    folder.write("outcome.json", json.dumps(fields).encode())


def read_outcome(path: Path) -> Outcome:
    """What is in the folder of a run; a run that failed or is not over raises."""
    folder = RunFolder(path)
    try:
        fields = json.loads((path / "outcome.json").read_text())
    except (OSError, ValueError):
        raise SenseCryptError(f"{path} holds no run that is over; look into the ServerApp's log") from None
    if "error" in fields:
        raise SenseCryptError(str(fields["error"]))
    log = merge_accuracies(folder.records())
    accuracy = [math.nan] * len(fields["clusters"])
    for record in clients_of(log):
        if record.accuracy is not None and not math.isnan(record.accuracy):
            accuracy[record.client] = record.accuracy
    return Outcome(
        config=folder.read_config(),
        labels=fields["clusters"],
        accuracy=accuracy,
        log=log,
        wall_seconds=fields["wall_seconds"],
        why_clusters=fields["why"],
        model_sha256=fields["model_sha256"],
        why_profile=folder.why_profile,
    )


def absences(folder: RunFolder, labels: Sequence[int]) -> list[str]:
    """Who took no part in a run, and what nodes were refused for, each once."""
    reasons = dict.fromkeys(each.refused for each in folder.records() if isinstance(each, Refusal))
    clients = [client for client, label in enumerate(labels) if label < 0]
    missing = [f"{_named(clients)} took no part in the run, or not to its end"] if clients else []
    return [*missing, *(f"a node was refused: {reason}" for reason in reasons)]


def _named(clients: Sequence[int]) -> str:
    return f"client{'s' if len(clients) > 1 else ''} {', '.join(map(str, clients))}"


def merge_accuracies(records: list[Record]) -> list[Played]:
    """Records as a run on one machine has them.

    Clients report accuracies only when they fetch the model: each goes into the record of its round. Lines about nodes
    that were refused are left out.
    """
    known = {(each.round, each.evaluated): each.accuracy for each in records if isinstance(each, Evaluation)}
    return [
        replace(record, accuracy=known.get((record.round, record.client), math.nan))
        if isinstance(record, ClientRecord) and record.round >= 0
        else record
        for record in only_played(records)
    ]
