"""The key server (the paper's DKMS): holds the secret key and decrypts only verified sums, each once.

It also keeps what clients share and the aggregator must not know: the sketch seed, the receipt seeds, and each
cluster's order of the parameters.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.ordering import descending_order
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey, Ints
from sensecrypt.errors import Rejected
from sensecrypt.protocol.messages import Aggregate, Receipt
from sensecrypt.protocol.opening import open_aggregate
from sensecrypt.protocol.receipts import PRIME, receipt
from sensecrypt.protocol.round import Round


@dataclass(frozen=True)
class Opened:
    """A decrypted and verified sum.

    Attributes:
        values: Σ p_i·w_i in fixed point, in the parameters' natural order.
        weight: Σ p_i over the contributors.
        contributors: who they are.
    """

    values: Ints
    weight: float
    contributors: tuple[int, ...]


class KeyServer:
    """Decrypts once per (run, round, cluster, purpose), only with enough contributors, and only what verifies."""

    def __init__(self, secret: DecryptionKey, *, min_contributors: int = 2) -> None:
        """A server for one key pair; all its seeds come from the operating system."""
        self._secret = secret
        self._min_contributors = checks.whole("min_contributors", min_contributors, low=1)
        self._root = secrets.token_bytes(32)
        self._orders: dict[tuple[str, int], checks.IntVector] = {}
        self._profiles: dict[tuple[str, int], checks.FloatVector] = {}
        self._receipts: dict[tuple[str | int, ...], dict[int, int]] = {}
        self._opened: set[tuple[str | int, ...]] = set()

    @property
    def public(self) -> EncryptionKey:
        """The key to encrypt with."""
        return self._secret.public

    def sketch_seed(self, run: str) -> bytes:
        """The clients' shared seed for sketches."""
        return self._derive("sketch", run)

    def receipt_seed(self, round_: Round) -> bytes:
        """The clients' shared seed for one round's receipts."""
        return self._derive("receipt", *map(str, round_.header.values()))

    def order(self, run: str, cluster: int) -> checks.IntVector | None:
        """The cluster's order of the parameters: slot s holds parameter order[s]; None as long as there is none."""
        return self._orders.get((run, cluster))

    def profile(self, run: str, cluster: int) -> checks.FloatVector | None:
        """The cluster's mean sensitivity of each block along its order, for choices that all members make alike."""
        return self._profiles.get((run, cluster))

    def take_receipt(self, data: bytes, round_: Round, *, sender: int) -> None:
        """Keep one client's receipt; a second one of the same client is refused."""
        message = Receipt.from_bytes(data, round_)
        if message.client != sender or sender not in round_.weights:
            raise Rejected(f"client {sender} sent a receipt that is not its own")
        kept = self._receipts.setdefault(_key(round_), {})
        if sender in kept:
            raise Rejected(f"client {sender} has sent a receipt already")
        kept[sender] = message.value

    def open(self, data: bytes, round_: Round, *, workers: int = 1) -> Opened:
        """Decrypt an aggregate after all checks that need no decryption, and verify it before giving it away."""
        aggregate = Aggregate.from_bytes(data, round_)
        if _key(round_) in self._opened:
            raise Rejected("this sum was decrypted already")
        receipts = self._receipts.get(_key(round_), {})
        self._check_contributors(aggregate.contributors, receipts, round_)
        order = self.order(round_.run, round_.cluster) if round_.purpose == "model" else None
        values = open_aggregate(aggregate, round_, self._secret, order, workers=workers)
        expected = sum(receipts[client] for client in aggregate.contributors) % PRIME
        if receipt(values, self.receipt_seed(round_)) != expected:
            raise Rejected("the sum does not match the receipts: an upload is missing, doubled or altered")
        self._opened.add(_key(round_))
        self._receipts.pop(_key(round_), None)
        weight = sum(round_.weights[client] for client in aggregate.contributors)
        return Opened(values, weight, aggregate.contributors)

    def restore_order(self, run: str, cluster: int, order: checks.IntVector, profile: checks.FloatVector) -> None:
        """An order that was made before a restart, and its profile."""
        self._orders[run, cluster] = checks.permutation("order", order, order.size)
        self._profiles[run, cluster] = checks.sensitivity_vector("profile", profile)

    def set_order(self, round_: Round, sums: Opened, *, first: npt.NDArray[np.bool_] | None = None) -> checks.IntVector:
        """The cluster's new order: descending mean sensitivity, after those parameters that must come `first`."""
        gains = np.maximum(sums.values, 0).astype(np.float64)
        order, _ = descending_order(gains)
        if first is not None:
            order = np.concatenate([order[first[order]], order[~first[order]]])
        blocks = np.arange(0, round_.size, round_.block)
        self._profiles[round_.run, round_.cluster] = np.add.reduceat(gains[order], blocks)
        self._orders[round_.run, round_.cluster] = order
        return order

    def _check_contributors(self, contributors: tuple[int, ...], receipts: Mapping[int, int], round_: Round) -> None:
        if len(set(contributors)) != len(contributors):
            raise Rejected("a contributor is counted twice")
        if not set(contributors) <= round_.weights.keys():
            raise Rejected("a contributor is no member of the cluster")
        if len(contributors) < self._min_contributors:
            raise Rejected(f"{len(contributors)} contributor(s), at least {self._min_contributors} are needed")
        if missing := [client for client in contributors if client not in receipts]:
            raise Rejected(f"no receipt of client {missing[0]}")

    def _derive(self, *purpose: str) -> bytes:
        return hmac.digest(self._root, "\x00".join(purpose).encode(), "sha256")


def _key(round_: Round) -> tuple[str | int, ...]:
    return tuple(round_.header.values())
