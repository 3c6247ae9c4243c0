"""A client's files in methods with two exchanges per round: the trained model, and the adversary's estimate."""

from __future__ import annotations

import json
from pathlib import Path

from sensecrypt.client.context import Vector
from sensecrypt.client.update import Trained
from sensecrypt.errors import Rejected
from sensecrypt.files import make_folder, write_whole
from sensecrypt.policies.maskcrypt import expose
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.protocol.requests import Assignment
from sensecrypt.records import Facts, to_fields
from sensecrypt.types import Mask

_TRAINED, _EXPOSED = "trained.safetensors", "exposed.safetensors"


class ExchangeFiles:
    """Two files in the client's folder of the run."""

    def __init__(self, folder: Path) -> None:
        """Use the client's folder of the run."""
        self._folder = folder

    def keep_trained(self, assignment: Assignment, trained: Trained) -> None:
        """Store the trained model for the second exchange of the same attempt."""
        tensors = {"weights": trained.weights}
        if trained.gradient is not None:
            tensors["gradient"] = trained.gradient
        facts = json.dumps(to_fields(trained.facts))
        self._write(_TRAINED, serialize("trained", {**_address(assignment), "facts": facts}, tensors))

    def trained(self, assignment: Assignment) -> Trained:
        """Return and delete the model of the first exchange of this attempt; raise `Rejected` if there is none."""
        path = self._folder / _TRAINED
        try:
            header, tensors = parse_any(path.read_bytes(), "trained")
        except FileNotFoundError:
            raise Rejected("an upload was requested before a proposal") from None
        if any(header[name] != str(own) for name, own in _address(assignment).items()):
            raise Rejected("an upload was requested, but the proposal was for another attempt, cluster or start model")
        path.unlink()
        return Trained(tensors["weights"], tensors.get("gradient"), Facts(**json.loads(header["facts"])))

    def keep_mask(self, mask: Mask) -> None:
        """Store the mask of this round: the parameters outside it will be exposed by the next model."""
        header, tensors = parse_any((self._folder / _EXPOSED).read_bytes(), "exposed")
        hidden = mask.to_array()
        self._write(_EXPOSED, serialize("exposed", {"round": int(header["round"])}, {**tensors, "hidden": hidden}))

    def exposed(self, assignment: Assignment, initial: Vector, vector: Vector) -> Vector:
        """Return the adversary's estimate of the cluster's model before this round.

        Args:
            assignment: the assignment of this round.
            initial: the model before the first round, which is public.
            vector: the start model of this round.
        """
        try:
            header, tensors = parse_any((self._folder / _EXPOSED).read_bytes(), "exposed")
        except FileNotFoundError:
            known = initial
        else:
            known = tensors["exposed"]
            if int(header["round"]) == assignment.number:
                return known
            if "hidden" in tensors:
                known = expose(known, tensors["hidden"].astype(bool), vector)
        self._write(_EXPOSED, serialize("exposed", {"round": assignment.number}, {"exposed": known}))
        return known

    def _write(self, name: str, data: bytes) -> None:
        make_folder(self._folder)
        write_whole(self._folder / name, data)


def _address(assignment: Assignment) -> dict[str, str | int]:
    """Return the fields that both exchanges of an attempt share; with another start model, the update would differ."""
    start = "" if assignment.start is None else "{},{}".format(*assignment.start)
    return {"cluster": assignment.cluster, "round": assignment.number, "attempt": assignment.attempt, "start": start}
