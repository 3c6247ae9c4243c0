"""The paper's Algorithm 1: every client holds the secret key and decrypts the sum itself.

It offers what the key server offers, as one client would do it; nothing is verified, and whoever holds an upload and
the key can read the upload. Use it to reproduce the paper, not to protect clients from each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from sensecrypt.crypto.scheme import DecryptionKey
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.protocol.keyserver import KeyServer, decrypt_aggregate
from sensecrypt.protocol.messages import Aggregate
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import ReleasedSum


class SharedKeyClients(KeyServer):
    """Clients that share one key pair."""

    def __init__(self, secret: DecryptionKey) -> None:
        """All seeds come from the operating system and are shared like the key."""
        name = secret.public.profile.name
        if secret.public.profile.forgeries_show_key:
            problem = f"is of {name}, of which a forged sum shows the secret part, and nobody verifies sums here"
            raise InvalidInput("secret", problem, "use a paillier profile, or a key server")
        super().__init__(secret, rules=ReleaseRules(min_contributors=1))

    @property
    def secret(self) -> DecryptionKey:
        """The key, which clients hold in this mode."""
        return self._secret

    def take_tag(self, data: bytes, round_: Round, *, sender: int) -> None:
        """Tags are for a key server: there is none."""

    def tagged(self, round_: Round) -> list[int]:
        """All members: nobody signs."""
        return sorted(round_.weights)

    def release(
        self,
        data: bytes,
        round_: Round,
        *,
        workers: int = 1,
        samples: Mapping[int, float] | None = None,  # noqa: ARG002 (nobody checks anything here)
    ) -> ReleasedSum:
        """What any client does with the aggregate."""
        aggregate = Aggregate.from_bytes(data, round_)
        order = self.order(round_.run, round_.cluster) if round_.purpose == "model" else None
        _, values, sound, cost = decrypt_aggregate(aggregate, round_, self._secret, order, workers=workers)
        if not sound:
            raise Rejected("the aggregate does not decrypt", code="does-not-decrypt")
        return ReleasedSum(values, round_.divisor(aggregate.contributors), aggregate.contributors, cost)
