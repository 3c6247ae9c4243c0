"""An aggregator that times how its sums fail: all failures are told 1/4, 1/2, 1, 2 … seconds after the sum came.

Without that, a sum that does not decrypt was told after 13 ms and one that does not match its tags after 17.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from sensecrypt.errors import Refused
from sensecrypt.keyservice.http import service as module
from tests.keyservice.rounds import Played

TICK = 0.25  # seconds


@pytest.mark.parametrize(("profile", "size"), [("insecure-test", 100), ("ring-2048", 4096)])
def test_sums_that_fail_in_different_ways_take_at_least_a_tick(server, profile, size):
    played = Played(server, profile=profile, size=size)
    round_ = played.register(played.round())
    whole = played.upload(round_)
    unmatched = replace(whole, plain=whole.plain + 1)
    undecryptable = replace(whole, ciphertexts=whole.ciphertexts * 0)
    noisy = replace(whole, ciphertexts=np.hstack([whole.ciphertexts[:, :64], ~whole.ciphertexts[:, 64:]]))
    with played.aggregator() as aggregator:
        aggregator.about()  # the connection stands
        for wrong in (unmatched, undecryptable, noisy):
            start = time.monotonic()
            with pytest.raises(Refused) as refusal:
                aggregator.release(wrong.to_bytes(round_), round_)
            assert refusal.value.code == "tags-mismatch"
            assert time.monotonic() - start >= TICK


@pytest.mark.parametrize(
    ("worked", "told"), [(0.001, TICK), (0.2, TICK), (0.26, 2 * TICK), (0.6, 4 * TICK), (1.7, 8 * TICK)]
)
def test_the_work_is_filled_up_to_the_next_tick(monkeypatch, worked, told):
    slept: list[float] = []
    monkeypatch.setattr(module.time, "perf_counter", lambda: worked)
    monkeypatch.setattr(module.time, "sleep", slept.append)
    module._wait_for_tick(0.0)
    assert worked + sum(slept) == pytest.approx(told)
