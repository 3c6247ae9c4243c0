"""L2, L3: an aggregator that plays attempts of one round against each other."""

from __future__ import annotations

import threading
import time

import pytest

from sensecrypt.errors import Refused
from tests.keyservice.rounds import Played


def test_a_model_is_handed_out_for_the_attempt_that_was_opened_and_for_no_other(server):
    played = Played(server)
    left, released = played.register(played.round()), played.register(played.round(attempt=1))
    played.release(played.upload(released), released)
    for client in (0, 1):
        with pytest.raises(Refused) as refusal:
            played.model(left, client)
        assert refusal.value.code == "not-released"
        assert played.model(released, client).size == played.size


def test_a_new_attempt_waits_for_an_opening_and_erases_nothing_that_it_reads(server):
    played = Played(server, size=20_000, profile="paillier-2048")
    round_ = played.register(played.round())
    aggregate, released = played.upload(round_), []
    release = threading.Thread(target=lambda: released.append(played.release(aggregate, round_)))
    release.start()
    while not played.events("sum-claimed"):
        time.sleep(0.005)
    assert not played.events("decrypted")
    with server.identity("aggregator", "aggregator", tries=12) as aggregator, pytest.raises(Refused) as refusal:
        aggregator.register_round(played.round(attempt=1))
    release.join()
    assert refusal.value.code == "already-decrypted"
    assert [each.contributors for each in released] == [(0, 1, 2, 3)]
    assert played.model(round_).size == played.size
