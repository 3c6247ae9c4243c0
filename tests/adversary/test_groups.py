"""H3: one client left out of a round's sum. A member that keeps its models subtracts one round's from the other's.

The aggregator is hostile and one member colludes; the key service is a real one.
"""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.errors import Refused
from tests.keyservice.conftest import make_server
from tests.keyservice.rounds import WEIGHTS, Played

VICTIM = 2


@pytest.fixture(scope="module")
def fixed(tmp_path_factory, pki):
    """A key service whose policy says fixed groups."""
    server = make_server(tmp_path_factory.mktemp("groups") / "service", pki, groups="fixed")
    server.start()
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.stderr()


def hand_in(played: Played, number: int, clients) -> np.ndarray:
    """The model of a round of all members into whose sum the aggregator puts these; the colluder is client 0."""
    round_ = played.register(played.round(number))
    played.release(played.upload(round_, clients), round_)
    return played.model(round_)


def test_a_client_that_is_left_out_of_one_round_is_the_difference(server):
    """The figure before, and still without the rule: exact where nobody's update changes from round to round."""
    played = Played(server)
    with_it, without = hand_in(played, 0, range(4)), hand_in(played, 1, [0, 1, 3])
    found = (with_it - (1 - WEIGHTS[VICTIM]) * without) / WEIGHTS[VICTIM]
    truth = played.models[VICTIM]
    assert np.linalg.norm(found - truth) / np.linalg.norm(truth) < 1e-3


def test_with_fixed_groups_that_sum_is_not_released(fixed):
    played = Played(fixed)
    hand_in(played, 0, range(4))
    with pytest.raises(Refused, match=r"it would isolate 1 client\(s\), but at least 2 are needed") as refusal:
        hand_in(played, 1, [0, 1, 3])
    assert refusal.value.code == "groups"
    assert "groups" in fixed.refusals()
    assert len(played.events("decrypted")) == 1


def test_what_was_released_is_remembered_over_restarts(fixed):
    played = Played(fixed)
    hand_in(played, 0, [0, 1, 2, 3])
    fixed.kill()
    fixed.start()
    with pytest.raises(Refused, match=r"isolate 1 client\(s\)"):
        hand_in(played, 2, [1, 2, 3])
    hand_in(played, 3, [2, 3])  # a whole group
