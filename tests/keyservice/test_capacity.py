"""Limits of connections: below the limit on open files, and fair to those who hold few."""

from __future__ import annotations

import pytest

from sensecrypt.errors import ServiceError
from sensecrypt.keyservice.http.connections import RESERVE, Capacity, Connections, Peer, fit
from sensecrypt.keyservice.http.metrics import Metrics
from sensecrypt.keyservice.http.policy import Policy


def peer(address: str, dropped: list[Peer], *, busy: bool = False) -> Peer:
    made = Peer(address, lambda: dropped.append(made), lambda: busy)
    return made


@pytest.mark.parametrize("descriptors", [192, 256, 1024, 4096, 20_000, 2**20])
def test_connections_leave_descriptors_to_the_service(descriptors):
    found = fit(Policy(), descriptors)
    assert found.handshakes + found.strangers + found.certified <= descriptors - RESERVE
    assert min(found.handshakes, found.strangers, found.certified, found.per_certificate) >= 1


def test_enough_descriptors_give_what_the_policy_says():
    assert fit(Policy(), 20_000) == Capacity(1024, 64, 16, 4096, 16)


def test_too_few_descriptors_are_told():
    with pytest.raises(ServiceError, match="the limit on open files: is 100; allow at least 192"):
        fit(Policy(), 100)


def test_a_full_share_makes_room_at_the_expense_of_whoever_holds_most():
    dropped: list[Peer] = []
    connections = Connections(Capacity(4, 1, 1, 1, 1), Metrics())
    member, hostile = peer("10.0.0.1", dropped), [peer("10.6.6.6", dropped) for _ in range(20)]
    connections.arrive(member)
    for each in hostile:
        connections.arrive(each)
    assert dropped == hostile[:17]  # the oldest of the address that holds most, and never the member's
    connections.settle(member, "client phone-0")
    assert connections.settle(hostile[-1], None)
    assert connections.settle(hostile[-2], None)
    assert dropped[17:] == [hostile[-1]]


def test_a_certificate_beyond_its_share_loses_its_own_idle_connections_only():
    dropped: list[Peer] = []
    connections = Connections(Capacity(100, 1, 1, 3, 2), Metrics())
    other, idle = peer("10.0.0.1", dropped), peer("10.6.6.6", dropped)
    busy = [peer("10.6.6.6", dropped, busy=True) for _ in range(3)]
    assert connections.settle(other, "client phone-0")
    assert connections.settle(idle, "client phone-6")
    assert [connections.settle(each, "client phone-6") for each in busy] == [True, True, False]
    assert dropped == [idle]
    connections.leave(busy[0])
    connections.leave(busy[0])
    assert connections.settle(peer("10.6.6.6", dropped), "client phone-6")
    assert dropped == [idle]
