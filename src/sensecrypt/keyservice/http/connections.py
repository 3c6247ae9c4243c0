"""Who holds a connection, and whose is closed when there are too many.

Peers are in one of three shares: those whose handshake is not done, those without a certificate, and those with one.
A full share makes room at the expense of whoever holds most of it. So one address cannot keep another out, and one
certificate cannot keep another out; a peer without a certificate never takes a place of one that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sensecrypt.keyservice.http.capacity import Capacity
from sensecrypt.keyservice.http.metrics import Metrics


@dataclass(eq=False)
class Peer:
    """One connection.

    Attributes:
        address: where it comes from.
        drop: closes it at once.
        is_busy: whether a request of it is being answered.
    """

    address: str
    drop: Callable[[], object]
    is_busy: Callable[[], bool] = lambda: False
    share: Share | None = None
    holder: str = ""


class Share:
    """So many connections, and so many per holder (an address, or a certificate's name)."""

    def __init__(self, limit: int, per_holder: int, *, spares_busy: bool) -> None:
        """Empty; `spares_busy`: a connection that is being answered is not closed for a new one."""
        self._limit, self._per_holder, self._spares_busy = limit, per_holder, spares_busy
        self._peers: dict[str, dict[Peer, None]] = {}  # oldest first
        self.count = 0

    def add(self, peer: Peer, holder: str) -> tuple[bool, Peer | None]:
        """Whether there is a place for it, and whose is to be closed for that."""
        own, victim = self._peers.get(holder, {}), None
        if len(own) >= self._per_holder:
            victim = self._oldest(own)
        elif self.count >= self._limit:
            for peers in sorted(self._peers.values(), key=len, reverse=True):
                if (victim := self._oldest(peers)) is not None:
                    break
        else:
            self._put(peer, holder)
            return True, None
        if victim is None:
            return False, None
        self.remove(victim)
        self._put(peer, holder)
        return True, victim

    def remove(self, peer: Peer) -> None:
        """Its connection is gone."""
        peers = self._peers[peer.holder]
        del peers[peer]
        if not peers:
            del self._peers[peer.holder]
        self.count -= 1
        peer.share = None

    def _put(self, peer: Peer, holder: str) -> None:
        self._peers.setdefault(holder, {})[peer] = None
        peer.share, peer.holder = self, holder
        self.count += 1

    def _oldest(self, peers: dict[Peer, None]) -> Peer | None:
        return next((peer for peer in peers if not (self._spares_busy and peer.is_busy())), None)


class Connections:
    """All of them. Call it in the event loop's thread only."""

    def __init__(self, capacity: Capacity, metrics: Metrics) -> None:
        """None yet."""
        self._metrics = metrics
        self._handshakes = Share(capacity.handshakes, capacity.handshakes, spares_busy=False)
        self._strangers = Share(capacity.strangers, capacity.strangers_per_address, spares_busy=False)
        self._certified = Share(capacity.certified, capacity.per_certificate, spares_busy=True)

    def arrive(self, peer: Peer) -> None:
        """A connection was accepted; its handshake begins."""
        self._place(peer, self._handshakes, peer.address)

    def settle(self, peer: Peer, holder: str | None) -> bool:
        """Its handshake is done, with a certificate of that role and name, or without one; False: no place for it."""
        self.leave(peer)
        if holder is None:
            return self._place(peer, self._strangers, peer.address)
        return self._place(peer, self._certified, holder)

    def end_handshake(self, peer: Peer) -> None:
        """Its handshake is over: give the place up, unless it has another by now."""
        if peer.share is self._handshakes:
            peer.share.remove(peer)

    def leave(self, peer: Peer) -> None:
        """Its connection is gone; also if it was dropped before."""
        if peer.share is not None:
            peer.share.remove(peer)

    def _place(self, peer: Peer, share: Share, holder: str) -> bool:
        placed, victim = share.add(peer, holder)
        if victim is not None:
            victim.drop()
        if victim is not None or not placed:
            self._metrics.count("connections_dropped")
        return placed
