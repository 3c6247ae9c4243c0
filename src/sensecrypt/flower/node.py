"""What a node asks of the key service, and what it agrees to.

In a simulation there is no key service: seed, key and round come with the message, the tag goes back with the reply.
A node that has an identity file takes none of these from a ServerApp: who could name the seeds could read the update.
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
from sensecrypt.protocol.round import Round, RoundAddress, address_of
from sensecrypt.types import Mask

IDENTITY = "sensecrypt-identity"  # the key of the node's configuration that names the identity file
_LOG = logging.getLogger("flwr.sensecrypt")


@dataclass(frozen=True)
class RoundKeys:
    """A round, and what a member needs for it.

    Attributes:
        round: as the key service has it.
        seed: of its tags.
        key: to encrypt with.
    """

    round: Round
    seed: bytes = field(repr=False)
    key: StorablePublicKey


class Node(Protocol):
    """One client in one round."""

    def begin(self, told: Instructions, layout: Layout, model: str, mark: str) -> RoundKeys:
        """The round, checked; `Rejected` if this client takes no part in it. Nothing has been trained yet.

        Args:
            told: by the ServerApp.
            layout: of the model.
            model: its hash.
            mark: the hash of the model and of what all members do alike.
        """

    def require_mask(self, mask: Mask) -> None:
        """Raise `Rejected` if too little would be encrypted."""

    def hand_in(self, tag: bytes, round_: Round, examples: int) -> bytes | None:
        """Hand the tag in; what is left of it to be sent with the reply."""


@contextmanager
def node_of(context: Context, told: Instructions) -> Iterator[Node]:
    """Where the ServerApp's key service is: in its own process, or behind HTTPS."""
    place = context.node_config.get(IDENTITY)
    if told.key_service == IN_PROCESS:
        if place is not None:
            fix = "pass the key service's address to SenseCrypt, or start this node without an identity"
            raise InvalidInput("key_service", "is in-process, where the ServerApp could read every update", fix)
        yield _SimulatedNode(context)
        return
    if not isinstance(place, str):
        fix = f"start the SuperNode with --node-config '{IDENTITY}=\"/path/to/identity.toml\"'"
        raise InvalidInput(IDENTITY, "is not in this node's configuration", fix)
    identity = read_identity(Path(place))
    if identity.url.rstrip("/") != told.key_service.rstrip("/"):
        fix = f"pass key_service={identity.url!r} to SenseCrypt, or another identity to this node"
        raise InvalidInput("key_service", "is another than this node's identity file names", fix)
    with identity.connect() as service:
        yield _FleetNode(context, identity, service)


class _SimulatedNode:
    """Everything comes with the message."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def begin(self, told: Instructions, layout: Layout, model: str, mark: str) -> RoundKeys:  # noqa: ARG002
        """What the message says; a model is trained once in a run here, too."""
        task = RoundTask.from_bytes(told.task)
        _require_round(task.round, told, layout)
        _note_in_memory(self._context, told, model)
        return RoundKeys(task.round, task.seed, parse_key(told.public_key))

    def require_mask(self, mask: Mask) -> None:
        """Whatever it is."""

    def hand_in(self, tag: bytes, round_: Round, examples: int) -> bytes | None:  # noqa: ARG002
        """It goes to the ServerApp."""
        return tag


class _FleetNode:
    """Asks the key service, with this node's certificate."""

    def __init__(self, context: Context, identity: Identity, service: DkmsClient) -> None:
        self._context, self._identity, self._service = context, identity, service

    def begin(self, told: Instructions, layout: Layout, model: str, mark: str) -> RoundKeys:
        """Join the run, if this is the first round of it, and fetch the round."""
        key = self._joined(told)
        task = self._service.task(RoundAddress(told.run, told.number, 0, "model", 0), start=mark)
        _require_round(task.round, told, layout)
        self._identity.conditions.require_round(task.round, told.client)
        _note_on_disk(self._identity.state / "flower", f"{told.run} round {told.number}", model)
        return RoundKeys(task.round, task.seed, key)

    def require_mask(self, mask: Mask) -> None:
        """Of the half that can be encrypted, as much as the identity file demands."""
        least = self._identity.required_share(only_blinds=False)
        share = min(1.0, 2 * mask.share)
        if share < least:
            raise Rejected(f"condition least_share: {share:.0%} would be encrypted, this client wants {least:.0%}")

    def hand_in(self, tag: bytes, round_: Round, examples: int) -> bytes | None:
        """Tell the key service how many examples count, the first time in a run for all rounds; and the tag."""
        known = self._context.state.get(RECORD)
        if not isinstance(known, ConfigRecord) or not known.get("told"):
            self._service.report_samples(round_.run, max(1, examples))
        self._service.send_tag(tag, round_)
        if isinstance(known, ConfigRecord):
            known["told"] = 1
        return None

    def _joined(self, told: Instructions) -> StorablePublicKey:
        """The run's public key; asked for once in a run, as are its rules."""
        known = self._context.state.get(RECORD)
        if isinstance(known, ConfigRecord) and known.get("run") == told.run:
            data = known["public-key"]
            if isinstance(data, bytes):
                return parse_key(data)
        described = self._service.run(told.run)
        self._identity.require_app_run(described)
        self._service.join(told.run, told.client)
        key = self._service.public_key(told.run)
        self._context.state[RECORD] = ConfigRecord({"run": told.run, "public-key": serialize_key(key)})
        return key


def serialize_key(key: StorablePublicKey) -> bytes:
    """A public key as it travels."""
    return json.dumps(public_fields(key)).encode()


@lru_cache(maxsize=4)
def parse_key(data: bytes) -> StorablePublicKey:
    """The key in such a message; its tables are made once per process."""
    try:
        fields = json.loads(data)
    except ValueError:
        raise Rejected("a public key that cannot be read") from None
    return public_key("the message", fields)


def _require_round(round_: Round, told: Instructions, layout: Layout) -> None:
    """Raise `Rejected` unless the round is the one that was told, of this model, and weighs all members alike."""
    place, size = RoundAddress(told.run, told.number, 0, "model", 0), size_of(layout.size)
    if address_of(round_) != place or told.client not in round_.weights:
        raise Rejected("the round is another than the ServerApp's instructions name")
    if round_.size != size or round_.clip != clip_of(layout.size):
        raise Rejected(f"the round is of {round_.size:,} numbers, this model takes {size:,}")
    if max(round_.weights.values()) > min(round_.weights.values()) * (1 + 1e-9):
        raise Rejected("the round weighs its members itself, where each brings its own weight")


def _note_in_memory(context: Context, told: Instructions, model: str) -> None:
    known = context.state.get(RECORD)
    record = known if isinstance(known, ConfigRecord) and known.get("run") == told.run else ConfigRecord()
    found = record.get("trained", [])
    trained = [str(each) for each in found] if isinstance(found, list) else []
    if model in trained:
        raise Rejected(_AGAIN)
    context.state[RECORD] = ConfigRecord({"run": told.run, "trained": [*trained, model]})


def _note_on_disk(folder: Path, what: str, model: str) -> None:
    """Keep that this model is trained; raise `Rejected` if it was before, in whatever run."""
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
