"""The key service as the wrapper uses it: in the ServerApp's own process, or behind HTTPS."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import ReleasedSum


class AppKeyService(Protocol):
    """What the wrapper asks for. What is refused raises `Rejected` or `Refused`."""

    @property
    def address(self) -> str:
        """As clients are told it."""

    @property
    def with_tags(self) -> bool:
        """Whether tags come with the replies."""

    def begin(self, run: str, size: int, profile: str, rules: ReleaseRules) -> EncryptionKey:
        """Register a run; its public key."""

    def rules(self) -> ReleaseRules:
        """What sums of the run must keep."""

    def register(self, round_: Round) -> tuple[bytes, bytes]:
        """Register a round; the task and the public key for its members, where they come with the message."""

    def take_tag(self, tag: bytes, round_: Round, *, sender: int, examples: float) -> None:
        """Keep a tag that came with a reply."""

    def tags(self, round_: Round) -> Collection[int]:
        """Whose tags there are."""

    def names(self) -> Mapping[int, str]:
        """What is known about who a client is."""

    def release(self, aggregate: bytes, round_: Round) -> ReleasedSum:
        """Have a sum decrypted and verified."""
