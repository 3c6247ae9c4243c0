"""Limits on connections: how many there may be, and which is closed when there are too many.

Peers are in one of three shares: unfinished handshakes, peers without a certificate, and peers with one. A full share
closes a connection of the holder with the most connections in it. So no address or certificate keeps another out, and
peers without a certificate take no place of peers with one. All shares together are smaller than the limit on open
files, so that the service can open its own.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass

from sensecrypt.errors import ServiceError
from sensecrypt.keyservice.http.metrics import Metrics
from sensecrypt.keyservice.http.policy import Policy

RESERVE = 128  # descriptors for the database, the log, key files, the vault, and the standard library
_LEAST = 64  # the least number of connections of a useful service


@dataclass(frozen=True)
class Capacity:
    """The most connections of each kind at once."""

    handshakes: int  # whose TLS handshake is not done
    strangers: int  # without a certificate
    strangers_per_address: int  # of these, from one address
    certified: int  # with a certificate
    per_certificate: int  # of these, with one certificate's name


def find_capacity(policy: Policy) -> Capacity:
    """The policy's limits, or less with fewer descriptors; raises the limit on open files if possible."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = policy.handshakes + policy.strangers + policy.connections + RESERVE
    limit = wanted if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return fit(policy, limit)


def fit(policy: Policy, descriptors: int) -> Capacity:
    """The policy's limits with that many descriptors: a quarter for handshakes, a sixteenth for strangers."""
    free = descriptors - RESERVE
    if free < _LEAST:
        fix = f"allow at least {RESERVE + _LEAST} (ulimit -Hn, LimitNOFILE)"
        raise ServiceError("the limit on open files", f"is {descriptors}", fix)
    handshakes, strangers = min(policy.handshakes, free // 4), min(policy.strangers, free // 16)
    certified = min(policy.connections, free - handshakes - strangers)
    per_address, per_certificate = policy.strangers_per_address, policy.connections_per_certificate
    return Capacity(handshakes, strangers, min(per_address, strangers), certified, min(per_certificate, certified))


@dataclass(eq=False)
class Peer:
    """One connection."""

    address: str  # where it comes from
    drop: Callable[[], object]  # closes it at once
    is_busy: Callable[[], bool] = lambda: False  # whether a request of it is being answered
    share: Share | None = None
    holder: str = ""


class Share:
    """A limited number of connections, also per holder (an address, or a certificate's name)."""

    def __init__(self, limit: int, per_holder: int, *, spares_busy: bool) -> None:
        """With `spares_busy`, a connection that is being answered is not closed for a new one."""
        self._limit, self._per_holder, self._spares_busy = limit, per_holder, spares_busy
        self._peers: dict[str, dict[Peer, None]] = {}  # oldest first
        self.count = 0

    def add(self, peer: Peer, holder: str) -> tuple[bool, Peer | None]:
        """Add a connection; returns whether it has a place, and which other one must be closed for it."""
        own, victim = self._peers.get(holder, {}), None
        if len(own) >= self._per_holder or self.count >= self._limit:
            holders = [own] if len(own) >= self._per_holder else sorted(self._peers.values(), key=len, reverse=True)
            idle = (each for peers in holders for each in peers if not (self._spares_busy and each.is_busy()))
            victim = next(idle, None)
            if victim is None:
                return False, None
            self.remove(victim)
        self._peers.setdefault(holder, {})[peer] = None
        peer.share, peer.holder = self, holder
        self.count += 1
        return True, victim

    def remove(self, peer: Peer) -> None:
        """Remove a connection."""
        peers = self._peers[peer.holder]
        del peers[peer]
        if not peers:
            del self._peers[peer.holder]
        self.count -= 1
        peer.share = None


class Connections:
    """All connections of a service. Call it in the event loop's thread only."""

    def __init__(self, capacity: Capacity, metrics: Metrics) -> None:
        self._metrics = metrics
        self._handshakes = Share(capacity.handshakes, capacity.handshakes, spares_busy=False)
        self._strangers = Share(capacity.strangers, capacity.strangers_per_address, spares_busy=False)
        self._certified = Share(capacity.certified, capacity.per_certificate, spares_busy=True)

    def arrive(self, peer: Peer) -> None:
        """Count a connection that was accepted and whose handshake begins."""
        self._place(peer, self._handshakes, peer.address)

    def settle(self, peer: Peer, holder: str | None) -> bool:
        """Count a connection after its handshake, under its certificate's name if any; False: there is no place."""
        self.leave(peer)
        if holder is None:
            return self._place(peer, self._strangers, peer.address)
        return self._place(peer, self._certified, holder)

    def end_handshake(self, peer: Peer) -> None:
        """Remove a connection whose handshake is over, unless it has another place by now."""
        if peer.share is self._handshakes:
            peer.share.remove(peer)

    def leave(self, peer: Peer) -> None:
        """Remove a connection that is closed, if it was not dropped before."""
        if peer.share is not None:
            peer.share.remove(peer)

    def _place(self, peer: Peer, share: Share, holder: str) -> bool:
        placed, victim = share.add(peer, holder)
        if victim is not None:
            victim.drop()
        if victim is not None or not placed:
            self._metrics.count("connections_dropped")
        return placed
