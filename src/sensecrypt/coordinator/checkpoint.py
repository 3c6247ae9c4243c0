"""The coordinator's checkpoint: clusters, numbers of samples, and which models are the latest.

Models, keys and orders are not part of it: the key service stores them. A closed sum is stored until its round is over,
so that a coordinator that is killed and restarted submits the same sum, never another one.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.sketching import SEED_BYTES
from sensecrypt.errors import InvalidInput
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.records import SETUP, ClusterRecords, clients_of, read_record, servers_of, to_fields
from sensecrypt.runs.folder import RunFolder

KEY_SERVICE = "key-service-"
_ATTEMPT, _SKETCH_SEED = "attempt.json", "sketch-seed"


@dataclass(eq=False)
class RunState:
    """A run between two rounds.

    Attributes:
        next_round: the first round that was not played.
        why: how the clusters were found.
        size: number of parameters of the model.
        initial: SHA-256 of the initial model.
        clip: the bound on updates, computed from that model; None: clients send weights.
        labels: the cluster of each client; −1 until it enrols.
        samples: the number of samples of each client; 0 until it enrols.
        rows: the vector of each client for clustering.
        latest: number and attempt of the round of each cluster's model; −1: the initial model.
        bandwidths: megabytes per second of each client's first answer; NaN until it enrols. None: budgets do not use
            them.
    """

    next_round: int
    why: str
    size: int
    initial: str
    clip: float | None
    labels: checks.IntVector
    samples: checks.IntVector
    rows: checks.FloatVector
    latest: checks.IntVector
    bandwidths: checks.FloatVector | None = None

    @property
    def measured(self) -> dict[int, float]:
        """The bandwidth of each enrolled client's first answer."""
        known = [] if self.bandwidths is None else enumerate(self.bandwidths.tolist())
        return {client: value for client, value in known if not math.isnan(value)}

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return len(self.latest)

    @property
    def excluded(self) -> set[int]:
        """The clients that enrolled and are no longer members."""
        return {int(client) for client in np.flatnonzero((self.labels < 0) & (self.samples > 0))}

    def members(self, cluster: int) -> list[int]:
        """Return the clients of a cluster."""
        return [int(client) for client in np.flatnonzero(self.labels == cluster)]

    def start(self, cluster: int) -> tuple[int, int] | None:
        """Return number and attempt of the round of a cluster's model; None: it is the initial model."""
        number, attempt = (int(each) for each in self.latest[cluster])
        return None if number < 0 else (number, attempt)

    def save(self, folder: RunFolder, more: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        """Replace the checkpoint; `more` is the state of a key service in this process."""
        header: dict[str, str | int] = {
            "round": self.next_round,
            "why": self.why,
            "size": self.size,
            "initial": self.initial,
            "clip": "" if self.clip is None else self.clip.hex(),
            "one_machine": int(more is not None),
        }
        tensors = {"labels": self.labels, "samples": self.samples, "rows": self.rows, "latest": self.latest}
        if self.bandwidths is not None:
            tensors["bandwidths"] = self.bandwidths
        tensors |= {f"{KEY_SERVICE}{name}": tensor for name, tensor in (more or {}).items()}
        folder.save_checkpoint(header, tensors)


def load_state(folder: RunFolder) -> tuple[RunState, dict[str, npt.NDArray[Any]]] | None:
    """Return the coordinator's and the key service's state after the last complete round; delete later records."""
    checkpoint = folder.load_checkpoint()
    if checkpoint is None:
        folder.forget_from(SETUP)
        return None
    header, tensors = checkpoint
    if "initial" not in header:
        fix = "start the run again in another folder"
        raise InvalidInput(str(folder.path), "has a checkpoint of a version before 0.3", fix)
    folder.forget_from(int(header["round"]))
    rest = {name: tensors[name] for name in ("labels", "samples", "rows", "latest")}
    if "bandwidths" in tensors:
        rest["bandwidths"] = tensors["bandwidths"]
    clip = float.fromhex(header["clip"]) if header["clip"] else None
    state = RunState(int(header["round"]), header["why"], int(header["size"]), header["initial"], clip, **rest)
    kept = {name.removeprefix(KEY_SERVICE): each for name, each in tensors.items() if name.startswith(KEY_SERVICE)}
    return state, kept


@dataclass(frozen=True, eq=False)
class ClosedSum:
    """A cluster's closed sums, which the key service can release.

    Attributes:
        cluster: the cluster's number.
        number: the round's number.
        attempt: the round's attempt.
        model: the aggregate.
        sensitivity: the aggregate of sensitivities, if a new order is due.
        records: the round's records.
        members: the round's members.
    """

    cluster: int
    number: int
    attempt: int
    model: bytes
    sensitivity: bytes | None
    records: ClusterRecords
    members: list[int]

    def save(self, folder: RunFolder) -> None:
        """Store the sums until the round is over."""
        tensors: dict[str, Any] = {
            "model": self.model,
            "records": json.dumps([to_fields(each) for each in self.records.all()]).encode(),
        }
        if self.sensitivity is not None:
            tensors["sensitivity"] = self.sensitivity
        header: dict[str, str | int] = {"cluster": self.cluster, "number": self.number, "attempt": self.attempt}
        header["members"] = ",".join(map(str, self.members))
        arrays = {name: np.frombuffer(data, dtype=np.uint8) for name, data in tensors.items()}
        folder.write(_closed(self.cluster), serialize("closed", header, arrays))


def load_closed(folder: RunFolder, number: int) -> list[ClosedSum]:
    """Return the closed sums of a round that was not over when the coordinator ended."""
    found = []
    for path in sorted(folder.path.glob(_closed("*"))):
        header, arrays = parse_any(path.read_bytes(), "closed")
        data = {name: array.tobytes() for name, array in arrays.items()}
        cluster, of_round, attempt = (int(header[name]) for name in ("cluster", "number", "attempt"))
        if of_round == number:
            lines = [read_record(each) for each in json.loads(data["records"])]
            [server] = servers_of(lines)
            records = ClusterRecords(server, {each.client: each for each in clients_of(lines)})
            members = [int(client) for client in header["members"].split(",")]
            found.append(
                ClosedSum(cluster, of_round, attempt, data["model"], data.get("sensitivity"), records, members)
            )
    return found


def forget_closed(folder: RunFolder, cluster: int | None = None) -> None:
    """Delete closed sums, of all clusters or of one, because the round is over or the sum was finally refused."""
    for path in folder.path.glob(_closed("*" if cluster is None else cluster)):
        path.unlink()


def _closed(cluster: int | str) -> str:
    return f"closed-{cluster}.safetensors"


def sketch_seed(folder: RunFolder) -> bytes:
    """Return the seed of sketches; it is drawn once per run and stored."""
    try:
        return (folder.path / _SKETCH_SEED).read_bytes()
    except FileNotFoundError:
        folder.write(_SKETCH_SEED, secrets.token_bytes(SEED_BYTES))
        return (folder.path / _SKETCH_SEED).read_bytes()


def begin_attempt(folder: RunFolder, number: int) -> int:
    """Return the number of a new attempt at this round; it is stored, so that a restarted coordinator uses another."""
    try:
        known = json.loads((folder.path / _ATTEMPT).read_text())
    except OSError:
        known = {"round": None}
    attempt = known["attempt"] + 1 if known["round"] == number else 0
    folder.write(_ATTEMPT, json.dumps({"round": number, "attempt": attempt}).encode())
    return attempt
