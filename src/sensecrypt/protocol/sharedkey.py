"""The paper's Algorithm 1: every client holds the secret key and decrypts the sum itself.

It offers what the key server offers, as one client would do it; nothing is verified, and whoever holds an upload and
the key can read the upload. Use it to reproduce the paper, not to protect clients from each other.
"""

from __future__ import annotations

from sensecrypt.crypto.scheme import DecryptionKey
from sensecrypt.errors import Rejected
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.messages import Aggregate
from sensecrypt.protocol.opened import Opened
from sensecrypt.protocol.opening import open_aggregate
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.sumrules import SumRules


class SharedKeyClients(KeyServer):
    """Clients that share one key pair."""

    def __init__(self, secret: DecryptionKey) -> None:
        """All seeds come from the operating system and are shared like the key."""
        super().__init__(secret, rules=SumRules(min_contributors=1))

    @property
    def secret(self) -> DecryptionKey:
        """The key, which clients hold in this mode."""
        return self._secret

    def take_receipt(self, data: bytes, round_: Round, *, sender: int) -> None:
        """Receipts are for a key server: there is none."""

    def signed(self, round_: Round) -> list[int]:
        """All members: nobody signs."""
        return sorted(round_.weights)

    def open(self, data: bytes, round_: Round, *, workers: int = 1) -> Opened:
        """What any client does with the aggregate."""
        aggregate = Aggregate.from_bytes(data, round_)
        order = self.order(round_.run, round_.cluster) if round_.purpose == "model" else None
        _, values, sound, cost = open_aggregate(aggregate, round_, self._secret, order, workers=workers)
        if not sound:
            raise Rejected("the aggregate does not decrypt", code="does-not-decrypt")
        return Opened(values, round_.divisor(aggregate.contributors), aggregate.contributors, cost)
