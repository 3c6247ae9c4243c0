"""A run on disk: its configuration, a line of JSON per client and round, a checkpoint, the final models.

Every file is written atomically, so a run that is killed at any point resumes after its last complete round.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.config import SETTINGS, RunConfig, change, make_config, to_settings
from sensecrypt.errors import InvalidInput, Rejected, SenseCryptError
from sensecrypt.files import make_folder, write_whole
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.records import Record, read_record, to_fields
from sensecrypt.simulation.clock import CostModel

VERSION = 3
CHANGEABLE = (  # the settings that may change when a run is resumed
    *("rounds", "learning_rate", "momentum", "batch_size", "local_epochs", "sample", "order_refresh", "quorum"),
    *("slack", "grace", "sensitivity_samples", "on_infeasible", "workers"),
)


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        """Use an existing or a new folder."""
        self.path, self.records_path = path, path / "records.jsonl"

    def exists(self) -> bool:
        """Return whether the folder contains a run."""
        return (self.path / "run.json").exists()

    def refuse_existing(self) -> None:
        """Raise if the folder contains a run."""
        if self.exists():
            fix = "choose another folder, or continue the run with --resume"
            raise InvalidInput(str(self.path), "holds a run already", fix)

    def create(self, config: RunConfig, *, why_profile: str = "") -> None:
        """Create the files of a new run; `why_profile` is the reason for the profile if it was `auto`."""
        self.refuse_existing()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"cannot be created ({error.strerror})"
            raise InvalidInput(str(self.path), problem, "choose another folder") from None
        self._write_config(config, why_profile)

    def _write_config(self, config: RunConfig, why_profile: str) -> None:
        fields = {"version": VERSION, "config": to_settings(config), "why_profile": why_profile}
        self.write("run.json", json.dumps(fields, indent=1).encode())

    def read_config(self) -> RunConfig:
        """Return the configuration of the run in this folder."""
        return make_config({"weighting": "client", **self._fields()["config"]})  # runs of old versions do not name it

    @property
    def why_profile(self) -> str:
        """The reason for the run's profile if it was `auto`; else empty."""
        return str(self._fields().get("why_profile", ""))

    def _fields(self) -> dict[str, Any]:
        try:
            run: dict[str, Any] = json.loads((self.path / "run.json").read_text())
        except (OSError, ValueError):
            raise InvalidInput(str(self.path), "holds no run", "check the path, or start a run there first") from None
        if run.get("version") != VERSION:
            raise InvalidInput(
                str(self.path), f"is a run of version {run.get('version')}", "use the version that made it"
            )
        return run

    def change_config(self, changes: Mapping[str, Any]) -> RunConfig:
        """Change settings from the next round on, and return the configuration; raise if a setting may not change.

        Args:
            changes: values by key; strings are converted to the key's type.
        """
        for key in changes:
            if key not in CHANGEABLE and key in SETTINGS:
                fix = f"start another run, or change one of {', '.join(CHANGEABLE)}"
                raise InvalidInput(key, "cannot be changed in a run that has started", fix)
        config = change(self.read_config(), changes)
        self._write_config(config, self.why_profile)
        return config

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the run, so that no second process writes to it."""
        make_folder(self.path)
        with (self.path / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fix = "wait until that process has ended, or stop it"
                raise InvalidInput(str(self.path), "is in use by another process", fix) from None
            yield

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        write_whole(self.path / name, data)

    def save_cost_model(self, cost_model: CostModel | None) -> None:
        """Save the cost model of a calibrated run, which a resumed run uses again."""
        if cost_model is not None:
            self.write("cost-model.json", json.dumps(vars(cost_model)).encode())

    def load_cost_model(self) -> CostModel | None:
        """Return the saved cost model; None: there is none."""
        try:
            return CostModel(**json.loads((self.path / "cost-model.json").read_text()))
        except OSError:
            return None

    def keep_message(self, round_number: int, name: str, data: bytes) -> None:
        """Save a message of a round."""
        place = self.path / "messages" / f"round-{round_number}"
        try:
            place.mkdir(parents=True, exist_ok=True)
            (self.path / "messages").chmod(0o700)
        except OSError as error:
            raise SenseCryptError(f"{place} cannot be created: {error.strerror}; free some space") from None
        RunFolder(place).write(f"{name}.safetensors", data)

    def message(self, round_number: int, name: str) -> bytes:
        """Return a saved message."""
        try:
            return (self.path / "messages" / f"round-{round_number}" / f"{name}.safetensors").read_bytes()
        except OSError:
            if not (self.path / "messages").exists():
                fix = "run again with --set messages=keep"
                raise InvalidInput(str(self.path), "is a run whose messages were not kept", fix) from None
            problem = f"has no message {name} of round {round_number}"
            raise InvalidInput(str(self.path), problem, "name a round and a client that took part in it") from None

    def save_checkpoint(self, header: Mapping[str, str | int], tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace the checkpoint."""
        self.write("checkpoint.safetensors", serialize("checkpoint", header, tensors))

    def load_checkpoint(self) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]] | None:
        """Return header and tensors of the checkpoint; None: there is none."""
        path = self.path / "checkpoint.safetensors"
        if not path.exists():
            return None
        try:
            return parse_any(path.read_bytes(), "checkpoint")
        except (Rejected, OSError) as error:
            raise InvalidInput(
                str(path), f"cannot be used ({error})", "start the run again in another folder"
            ) from None

    def append(self, records: Sequence[Record]) -> None:
        """Append records to `records.jsonl`."""
        try:
            with self.records_path.open("a") as file:
                file.writelines(json.dumps(to_fields(record)) + "\n" for record in records)
        except OSError as error:
            raise SenseCryptError(f"{self.records_path} cannot be written: {error.strerror}; free some space") from None

    def records(self) -> list[Record]:
        """Return the records of all complete lines."""
        if not self.records_path.exists():
            return []
        records = []
        for number, line in enumerate(self.records_path.read_text().split("\n")[:-1], start=1):
            try:
                records.append(read_record(json.loads(line)))
            except InvalidInput as error:
                problem = f"is damaged: line {number}: {error.argument} {error.problem}"
                raise InvalidInput(str(self.records_path), problem, error.fix) from None
            except (ValueError, RecursionError):
                fix = "restore it, or start the run again in another folder"
                problem = f"is damaged: line {number} is not JSON"
                raise InvalidInput(str(self.records_path), problem, fix) from None
        return records

    def forget_from(self, round_number: int) -> None:
        """Delete the records of this round and later ones, which will be repeated."""
        kept = [record for record in self.records() if record.round < round_number]
        self.write("records.jsonl", "".join(json.dumps(to_fields(record)) + "\n" for record in kept).encode())

    def save_model(self, cluster: int, tensors: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Save the final model of one cluster: everything that training changes, by name."""
        self.write(f"model-{cluster}.safetensors", serialize("model", {"cluster": cluster}, tensors))
