"""Statistics at the end of an update: averaged whatever the rule, bound by their slots and not by `clip`."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt import generate_keypair
from sensecrypt.algo.clipping import check_start, clip_update
from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import MISMATCH, KeyServer
from sensecrypt.protocol.protection import model_format, protect_model
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import moved_after
from sensecrypt.types import Mask

WEIGHTS, CLIP = {0: 0.5, 1: 0.25, 2: 0.25}, 1.0
PUBLIC, SECRET = generate_keypair("insecure-test")


def test_clipping_leaves_them_to_their_slots():
    sent, clipped = clip_update([3.0, 4.0, 50.0, 1000.0], norm=1.0, largest=128.0, statistics=2)
    assert clipped
    assert sent == pytest.approx([0.6, 0.8, 50.0, 128.0])
    sent, clipped = clip_update([0.3, 0.4, 50.0], norm=1.0, largest=128.0, statistics=1)
    assert not clipped
    assert sent == pytest.approx([0.3, 0.4, 50.0])


@pytest.mark.parametrize("rule", ["fedavg", "fedavgm", "fedadam", "fedyogi"])
def test_no_rule_touches_them(rule):
    mean = np.array([0.1, -0.2, 0.5, 7.0])
    with_them, without = ServerRule(rule, 0.3, statistics=2), ServerRule(rule, 0.3)
    state, plain = {}, {}
    for _ in range(3):
        step, state = with_them.step(mean, state)
        expected, plain = without.step(mean[:2], plain)
        assert step == pytest.approx([*expected, 0.5, 7.0])
    assert all(each.size == 2 for each in state.values())


def test_the_start_of_a_round_is_bound_in_its_parameters_alone():
    check_start([0.5, 90.0], [0.0, 0.0], norm=1.0, rounds=1, statistics=1)
    with pytest.raises(InvalidInput, match="clipped updates allow"):
        check_start([1.5, 90.0], [0.0, 0.0], norm=1.0, rounds=1, statistics=1)


def played(updates, statistics):
    """The key server's mean of these updates."""
    round_ = Round("run", 0, 0, "model", 40, get_profile("insecure-test"), WEIGHTS, clip=CLIP)
    server = KeyServer(SECRET, rules=ReleaseRules(min_contributors=2), statistics=statistics)
    total, mask = RoundSum(round_, PUBLIC), Mask.prefix(1, size=round_.size, block=round_.block)
    for client, update in updates.items():
        assert np.abs(update).max() <= model_format(round_).largest
        seed = server.tag_seed(round_)
        protected = protect_model(update, mask, round_, client=client, key=PUBLIC, seed=seed, blinded=True)
        server.take_tag(protected.tag, round_, sender=client)
        total.add(protected.upload, sender=client)
    released = server.release(total.close().to_bytes(round_), round_)
    return moved_after(None, released, round_, rule=ServerRule("fedadam", 0.1, statistics=statistics))[0]


def test_the_key_server_releases_them_and_still_holds_parameters_to_the_bound():
    far = np.zeros(40)
    far[30:] = [4.0 * k for k in range(10)]
    updates = {client: far * (client + 1) for client in WEIGHTS}
    mean = sum(weight * updates[client] for client, weight in WEIGHTS.items())
    assert played(updates, 10)[30:] == pytest.approx(mean[30:], abs=1e-5)
    with pytest.raises(Rejected, match=MISMATCH[:30]):
        played(updates, 8)  # two of them are parameters now, and move by more than the bound
