"""The key service as the wrapper uses it: in the ServerApp's own process, or behind HTTPS."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import ReleasedSum


class AppKeyService(Protocol):
    """The wrapper's requests. A refused request raises `Rejected` or `Refused`."""

    @property
    def address(self) -> str:
        """The address that clients receive."""

    @property
    def with_tags(self) -> bool:
        """Whether tags come with the replies."""

    def begin(self, run: str, size: int, profile: str, rules: ReleaseRules) -> EncryptionKey:
        """Register a run, and return its public key."""

    def rules(self) -> ReleaseRules:
        """The release rules of the run."""

    def register(self, round_: Round) -> tuple[bytes, bytes]:
        """Register a round, and return the task and the public key if they travel with the messages."""

    def take_tag(self, tag: bytes, round_: Round, *, sender: int, examples: float) -> None:
        """Keep a tag that came with a reply."""

    def tags(self, round_: Round) -> Collection[int]:
        """The clients whose tags have arrived."""

    def names(self) -> Mapping[int, str]:
        """The certificate names of clients, as far as known."""

    def release(self, aggregate: bytes, round_: Round) -> ReleasedSum:
        """Have a sum decrypted and verified."""
