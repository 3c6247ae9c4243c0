"""A key service in the ServerApp's process, for simulations: the same checks, but one process holds all secrets."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.flower.instructions import IN_PROCESS
from sensecrypt.flower.node import serialize_key
from sensecrypt.protocol.answers import RoundTask
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import ReleasedSum

_LOG = logging.getLogger("flwr.sensecrypt")
_WARNING = (
    'key_service="in-process" is for simulations: this one process has the secret key and sees every update. '
    "For clients of others run a key service, and pass its https:// address."
)


class InProcess:
    """A key server as long as the app runs."""

    address, with_tags = IN_PROCESS, True

    def __init__(self) -> None:
        """Log the warning; keys are made by `begin`."""
        _LOG.warning(_WARNING)
        self._examples: dict[int, float] = {}

    def begin(self, run: str, size: int, profile: str, rules: ReleaseRules) -> EncryptionKey:  # noqa: ARG002
        """Generate a key pair; its public key."""
        public, secret = generate_keypair(profile)
        self._server, self._rules, self._key = KeyServer(secret, rules=rules), rules, serialize_key(public)
        return public

    def rules(self) -> ReleaseRules:
        """The app's own rules."""
        return self._rules

    def register(self, round_: Round) -> tuple[bytes, bytes]:
        """The task and the public key, as members would get them from a key service."""
        self._rules.check(round_.weights, round_.weights.keys())
        self._examples = {}
        return RoundTask(round_, self._server.tag_seed(round_)).to_bytes(), self._key

    def take_tag(self, tag: bytes, round_: Round, *, sender: int, examples: float) -> None:
        """Keep a tag and the number of examples."""
        self._server.take_tag(tag, round_, sender=sender)
        self._examples[sender] = examples

    def tags(self, round_: Round) -> Collection[int]:
        """The clients whose tags are kept."""
        return self._server.tagged(round_)

    def names(self) -> Mapping[int, str]:
        """No names: nodes of a simulation have no certificates."""
        return {}

    def release(self, aggregate: bytes, round_: Round) -> ReleasedSum:
        """Decrypt and verify."""
        return self._server.release(aggregate, round_, samples=self._examples)
