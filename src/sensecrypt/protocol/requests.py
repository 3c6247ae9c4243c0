"""The other messages between coordinator and clients: challenges, invitations, enrolments, assignments, facts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from sensecrypt import checks
from sensecrypt.algo.sketching import SEED_BYTES
from sensecrypt.errors import Rejected
from sensecrypt.protocol.envelope import parse, serialize
from sensecrypt.records import Facts, to_fields

FAILURE = "failure"  # the only part of a failed reply: the reason
LONGEST_FAILURE = 400
_ENCRYPTING = {"protect_seconds", "encrypt_seconds", "encrypted_blocks", "ahead_seconds"}
_ORDERING = {"order_protect_seconds", "order_encrypt_seconds", "order_blocks", "order_ahead_seconds"}
NEEDED = {  # the required facts of each kind of reply: budgets and tables are computed from them
    "enrol": set[str](),
    "rank": {"sensitivity_seconds", "bytes_up", *_ORDERING},
    "train": {
        *("train_seconds", "sensitivity_seconds", "select_seconds", "bytes_up", *_ENCRYPTING),
        *("encrypted_share", "coverage", "budget", "decided_by", "feasible"),
    },
    "finish": set[str](),
}
_COUNTS = {"bytes_up", "bytes_down", "encrypted_blocks", "order_blocks"}
_FLAGS = {"feasible", "clipped"}
_LONGEST = {"decided_by": 40, "failure": LONGEST_FAILURE}  # texts
_LARGEST = {  # numbers
    **dict.fromkeys(("train_seconds", "sensitivity_seconds", "pass_seconds", "select_seconds"), 1e6),
    **dict.fromkeys((_ENCRYPTING | _ORDERING) - _COUNTS, 1e6),
    **dict.fromkeys(("encrypted_share", "coverage", "budget", "accuracy"), 1.0),
    "mi": 64.0,
}
_MOST = 2**40
_LONGEST_LAYER, _MOST_LAYERS = 200, 10_000
_LEAST_DEVICE, _MOST_DEVICE = 1e-3, 1e5  # processors, megabytes per second
_MOST_CLIP = 1e6
_ENROLMENT = {"size": int, "initial": str, "clip": str, "cpus": str, "bandwidth": str}
_ASSIGNMENT = {"cluster": int, "number": int, "attempt": int, "budget": str, "start": str, "refresh": int}
Header = dict[str, str | int]
Parts = Mapping[str, bytes]  # a message


@dataclass(frozen=True)
class Challenge:
    """The aggregator's request to a node to prove its client identity.

    Attributes:
        nonce: the text to sign.
    """

    nonce: str

    def to_bytes(self) -> bytes:
        """Return the message."""
        return serialize("challenge", {"nonce": self.nonce}, {})

    @classmethod
    def from_bytes(cls, data: bytes) -> Challenge:
        """Parse a message; raise `Rejected` if it is invalid."""
        fields, _ = parse(data, "challenge", header={"nonce": str}, tensors={})
        return cls(fields["nonce"])


@dataclass(frozen=True)
class Invitation:
    """The aggregator's request to enrol, to a node that has proven its client identity.

    Attributes:
        sketch_seed: the seed of sketches; the key service rotates the sketches for the aggregator.
    """

    sketch_seed: bytes

    def to_bytes(self) -> bytes:
        """Return the message."""
        return serialize("invitation", {"sketch_seed": self.sketch_seed.hex()}, {})

    @classmethod
    def from_bytes(cls, data: bytes) -> Invitation:
        """Parse a message; raise `Rejected` if it is invalid."""
        fields, _ = parse(data, "invitation", header={"sketch_seed": str}, tensors={})
        try:
            seed = bytes.fromhex(fields["sketch_seed"])
        except ValueError:
            seed = b""
        if len(seed) != SEED_BYTES:
            raise Rejected("an invitation without a seed")
        return cls(seed)


@dataclass(frozen=True, eq=False)
class Enrolment:
    """A client's description of itself before the first round.

    Attributes:
        size: number of parameters of its model.
        initial: SHA-256 of its initial model, which must be the same for all clients.
        clip: the bound on its updates, from that model and the settings; None: it sends weights.
        row: the vector for clustering; empty without clustering.
        cpus: processors of its device, if it reports them.
        bandwidth: megabytes per second of its device, if it reports them.
    """

    size: int
    initial: str
    clip: float | None
    row: checks.FloatVector
    cpus: float | None = None
    bandwidth: float | None = None

    def to_bytes(self) -> bytes:
        """Return the message."""
        optional = {name: _optional(getattr(self, name)) for name in ("clip", "cpus", "bandwidth")}
        header: Header = {"size": self.size, "initial": self.initial, **optional}
        return serialize("enrolment", header, {"row": self.row.astype("<f8")})

    @classmethod
    def from_bytes(cls, data: bytes) -> Enrolment:
        """Parse a message; raise `Rejected` if it is invalid."""
        fields, arrays = parse(data, "enrolment", header=_ENROLMENT, tensors={"row": (np.dtype("<f8"), 1)})
        device = {key: _read_optional(fields[key]) for key in ("cpus", "bandwidth")}
        clip = _read_optional(fields["clip"])
        if clip is not None and not 0 < clip <= _MOST_CLIP:
            raise Rejected("an enrolment with an impossible bound on updates")
        if not 0 < fields["size"] <= _MOST:
            raise Rejected("an enrolment without parameters, or with impossibly many")
        if not all(each is None or _LEAST_DEVICE <= each <= _MOST_DEVICE for each in device.values()):
            raise Rejected(f"an enrolment with a device outside {_LEAST_DEVICE:g} to {_MOST_DEVICE:g}")
        if not (np.abs(arrays["row"]) < _MOST).all():
            raise Rejected("an enrolment with an impossible description")
        return cls(fields["size"], fields["initial"], clip, arrays["row"], **device)


@dataclass(frozen=True)
class Assignment:
    """The coordinator's request to one client in one round.

    Attributes:
        cluster: the client's cluster.
        number: the round's number.
        attempt: how often the round was started before.
        budget: α.
        start: number and attempt of the round whose model is the start model; None: the initial model.
        refresh: whether to send sensitivities as well, for a new order.
    """

    cluster: int
    number: int
    attempt: int
    budget: float
    start: tuple[int, int] | None
    refresh: bool

    def to_bytes(self) -> bytes:
        """Return the message."""
        start = "" if self.start is None else f"{self.start[0]},{self.start[1]}"
        header: Header = {"cluster": self.cluster, "number": self.number, "attempt": self.attempt, "start": start}
        return serialize("assignment", {**header, "budget": float(self.budget).hex(), "refresh": int(self.refresh)}, {})

    @classmethod
    def from_bytes(cls, data: bytes) -> Assignment:
        """Parse a message; raise `Rejected` if it is invalid."""
        fields, _ = parse(data, "assignment", header=_ASSIGNMENT, tensors={})
        try:
            number, attempt = map(int, fields["start"].split(",")) if fields["start"] else (-1, 0)
            budget = float.fromhex(fields["budget"])
        except (ValueError, OverflowError):
            raise Rejected("an assignment that cannot be read") from None
        if not 0 <= budget <= 1:
            raise Rejected("an assignment with an impossible budget")
        start = (number, attempt) if fields["start"] else None
        return cls(fields["cluster"], fields["number"], fields["attempt"], budget, start, bool(fields["refresh"]))


def facts_to_bytes(facts: Facts) -> bytes:
    """Return the message."""
    return serialize("facts", {"facts": json.dumps(to_fields(facts))}, {})


def facts_from_bytes(data: bytes, kind: str) -> Facts:
    """Parse the facts of a reply of this kind; raise `Rejected` if a required one is missing or a value impossible."""
    fields, _ = parse(data, "facts", header={"facts": str}, tensors={})
    try:
        facts: Any = json.loads(fields["facts"])
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise Rejected("facts that cannot be read")
    for name, value in facts.items():
        if not _is_possible(name, value):
            raise Rejected(f"an impossible fact {name[:20]!r}")
    if missing := NEEDED[kind] - facts.keys():
        raise Rejected(f"facts without {min(missing)}")
    return Facts(**facts)


def _is_possible(name: str, value: Any) -> bool:
    if name in _COUNTS:
        return type(value) is int and 0 <= value <= _MOST
    if name in _LARGEST:
        return (type(value) in (int, float) and 0 <= value <= _LARGEST[name]) or (name == "mi" and value is None)
    if name in _LONGEST:
        return _is_text(value, _LONGEST[name])
    if name == "layers":
        few = isinstance(value, dict) and len(value) <= _MOST_LAYERS
        return few and all(
            _is_text(layer, _LONGEST_LAYER)
            and isinstance(counts, list)
            and len(counts) == 2
            and all(type(count) is int and 0 <= count <= _MOST for count in counts)
            for layer, counts in value.items()
        )
    return name in _FLAGS and isinstance(value, bool)


def _is_text(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def require_parts(parts: Parts, *, needed: Set[str], allowed: Set[str] = frozenset()) -> Parts:
    """Return the parts of a message; raise `Rejected` unless they are all `needed` ones and some of the `allowed`."""
    if set(parts) == {FAILURE}:
        raise Rejected(printable(parts[FAILURE][:LONGEST_FAILURE].decode(errors="replace")))
    if not needed <= set(parts) or not set(parts) <= needed | allowed:
        raise Rejected(f"a message with the parts {printable(', '.join(sorted(parts))[:80])}")
    return parts


def printable(text: str) -> str:
    """Return text from outside as one line without control characters, for logs and tables."""
    return "".join(character if character.isprintable() else "·" for character in text)


def _optional(value: float | None) -> str:
    return "" if value is None else float(value).hex()


def _read_optional(text: str) -> float | None:
    try:
        value = float.fromhex(text) if text else None
    except (ValueError, OverflowError):
        raise Rejected("a number that cannot be read") from None
    if value is not None and not math.isfinite(value):
        raise Rejected("a number that is not finite")
    return value
