"""What a node requests from the key service, and what it refuses.

In a simulation there is no key service: round, seed and key come with the message, and the reply carries the tag.
A node that has an identity file accepts none of these from a ServerApp, because a ServerApp that chooses the seed can
read the update.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from flwr.app import ConfigRecord, Context

from sensecrypt.client.identity import Identity, read_identity
from sensecrypt.crypto.publicfile import public_fields, public_key
from sensecrypt.crypto.scheme import StorablePublicKey
from sensecrypt.errors import InvalidInput, Rejected, SenseCryptError
from sensecrypt.files import make_folder
from sensecrypt.flower.arrays import Layout
from sensecrypt.flower.coding import clip_of, size_of
from sensecrypt.flower.instructions import IN_PROCESS, RECORD, Instructions
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.protocol.answers import RoundTask
from sensecrypt.protocol.round import Round, address_of
from sensecrypt.types import Mask

IDENTITY = "sensecrypt-identity"  # the key of the node's configuration that names the identity file
_LOG = logging.getLogger("flwr.sensecrypt")


@dataclass(frozen=True)
class RoundKeys:
    """A round, and what a member needs to protect its update.

    Attributes:
        round: as the key service has registered it.
        seed: of its tags.
        key: to encrypt with.
    """

    round: Round
    seed: bytes = field(repr=False)
    key: StorablePublicKey


class Node(Protocol):
    """One client in one round."""

    def begin(self, instructions: Instructions, layout: Layout, model: str) -> RoundKeys:
        """The checked round and its keys, before any training; `Rejected` if this client refuses the round.

        Args:
            instructions: of the ServerApp.
            layout: of the model.
            model: the hash of the model.
        """

    def require_mask(self, mask: Mask) -> None:
        """Raise `Rejected` if the mask encrypts too little."""

    def hand_in(self, tag: bytes, round_: Round, examples: int) -> bytes | None:
        """Send the tag to the key service and return None, or return the tag if it has to travel with the reply."""


@contextmanager
def node_of(context: Context, instructions: Instructions) -> Iterator[Node]:
    """The client for the key service that the instructions name: in the ServerApp's process, or behind HTTPS."""
    place = context.node_config.get(IDENTITY)
    if instructions.key_service == IN_PROCESS:
        if place is not None:
            fix = "pass the key service's address to SenseCrypt, or start this node without an identity"
            raise InvalidInput("key_service", "is in-process, where the ServerApp could read every update", fix)
        yield _SimulatedNode(context)
        return
    if not isinstance(place, str):
        fix = f"start the SuperNode with --node-config '{IDENTITY}=\"/path/to/identity.toml\"'"
        raise InvalidInput(IDENTITY, "is not in this node's configuration", fix)
    identity = read_identity(Path(place))
    if identity.url.rstrip("/") != instructions.key_service.rstrip("/"):
        fix = f"pass key_service={identity.url!r} to SenseCrypt, or another identity to this node"
        raise InvalidInput("key_service", "differs from the one in this node's identity file", fix)
    with identity.connect() as service:
        yield _FleetNode(context, identity, service)


class _SimulatedNode:
    """Takes round, seed and key from the message."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def begin(self, instructions: Instructions, layout: Layout, model: str) -> RoundKeys:
        """Read the round from the message; one model is trained once per run."""
        task = RoundTask.from_bytes(instructions.task)
        _require_round(task.round, instructions, layout)
        _note_in_memory(self._context, instructions, model)
        return RoundKeys(task.round, task.seed, parse_key(instructions.public_key))

    def require_mask(self, mask: Mask) -> None:
        """Accept any mask."""

    def hand_in(self, tag: bytes, round_: Round, examples: int) -> bytes | None:  # noqa: ARG002
        """Return the tag, which travels to the ServerApp."""
        return tag


class _FleetNode:
    """Requests round, seed and key from the key service, with this node's certificate."""

    def __init__(self, context: Context, identity: Identity, service: DkmsClient) -> None:
        self._context, self._identity, self._service = context, identity, service

    def begin(self, instructions: Instructions, layout: Layout, model: str) -> RoundKeys:
        """Join the run in its first round, and fetch the round."""
        key = self._join(instructions)
        mark = hashlib.sha256(f"{model} {instructions.terms.text}".encode()).hexdigest()
        task = self._service.task(instructions.address, start=mark)
        _require_round(task.round, instructions, layout)
        self._identity.conditions.require_round(task.round, instructions.client)
        _note_on_disk(self._identity.state / "flower", f"{instructions.run} round {instructions.number}", model)
        return RoundKeys(task.round, task.seed, key)

    def require_mask(self, mask: Mask) -> None:
        """Raise `Rejected` below the identity file's `least_share` of the half that can be encrypted."""
        least = self._identity.required_share(only_blinds=False)
        share = min(1.0, 2 * mask.share)
        if share < least:
            raise Rejected(f"condition least_share: {share:.0%} would be encrypted, this client requires {least:.0%}")

    def hand_in(self, tag: bytes, round_: Round, examples: int) -> bytes | None:
        """Send the tag; the first time in a run also the number of examples, which holds for all its rounds."""
        known = self._context.state.get(RECORD)
        if not isinstance(known, ConfigRecord) or not known.get("reported"):
            self._service.report_samples(round_.run, max(1, examples))
        self._service.send_tag(tag, round_)
        if isinstance(known, ConfigRecord):
            known["reported"] = 1
        return None

    def _join(self, instructions: Instructions) -> StorablePublicKey:
        """The run's public key; the key and the run's rules are requested once per run."""
        known = self._context.state.get(RECORD)
        if isinstance(known, ConfigRecord) and known.get("run") == instructions.run:
            data = known["public-key"]
            if isinstance(data, bytes):
                return parse_key(data)
        described = self._service.run(instructions.run)
        self._identity.require_app_run(described)
        self._service.join(instructions.run, instructions.client)
        key = self._service.public_key(instructions.run)
        self._context.state[RECORD] = ConfigRecord({"run": instructions.run, "public-key": serialize_key(key)})
        return key


def serialize_key(key: StorablePublicKey) -> bytes:
    """A public key as JSON."""
    return json.dumps(public_fields(key)).encode()


@lru_cache(maxsize=4)
def parse_key(data: bytes) -> StorablePublicKey:
    """The key in such a message; its tables are computed once per process."""
    try:
        fields = json.loads(data)
    except ValueError:
        raise Rejected("a public key that cannot be read") from None
    return public_key("the message", fields)


def _require_round(round_: Round, instructions: Instructions, layout: Layout) -> None:
    """Raise `Rejected` unless the round is that of the instructions and of this model, with equal shares."""
    size = size_of(layout.size)
    if address_of(round_) != instructions.address or instructions.client not in round_.weights:
        raise Rejected("the round differs from the one in the ServerApp's instructions")
    if round_.size != size or round_.clip != clip_of(layout.size):
        raise Rejected(f"the round has {round_.size:,} numbers, this model needs {size:,}")
    if max(round_.weights.values()) > min(round_.weights.values()) * (1 + 1e-9):
        raise Rejected("the round gives its members different shares; here each client sends its own weight")


def _note_in_memory(context: Context, instructions: Instructions, model: str) -> None:
    known = context.state.get(RECORD)
    record = known if isinstance(known, ConfigRecord) and known.get("run") == instructions.run else ConfigRecord()
    found = record.get("trained", [])
    trained = [str(each) for each in found] if isinstance(found, list) else []
    if model in trained:
        raise Rejected(_AGAIN)
    context.state[RECORD] = ConfigRecord({"run": instructions.run, "trained": [*trained, model]})


def _note_on_disk(folder: Path, what: str, model: str) -> None:
    """Record that this model is trained; raise `Rejected` if it was trained before, in any run."""
    make_folder(folder)
    path = folder / hashlib.sha256(model.encode()).hexdigest()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(what)
    except FileExistsError:
        raise Rejected(_AGAIN) from None
    except OSError as error:
        raise SenseCryptError(f"{path} cannot be written: {error.strerror}; free some space") from None


_AGAIN = (
    "this node has trained from this very model before; two sums from one model, with and without a client, would "
    "show that client's update: start from another model, such as that of another seed"
)
