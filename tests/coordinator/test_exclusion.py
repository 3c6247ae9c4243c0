"""One client that spoils its cluster's sums is found by leaving clients out, before too many sums have failed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.coordinator.sums import MISMATCH, PARTS, Exclusion, PartedSum
from sensecrypt.errors import Refused, Rejected
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.protection import protect_model
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask
from tests.crypto.conftest import keypair

QUORUM, RULES = 0.5, ReleaseRules(3, 0.5, 0.7, 20.0, 1)


def everybody(exclusion: Exclusion, weights: dict[int, float]) -> set[int]:
    return exclusion.invited(0, weights, present=weights.keys(), quorum=QUORUM)


def play(exclusion: Exclusion, weights: dict[int, float], culprits: set[int]) -> tuple[set[int], int]:
    """One round as the aggregator plays it: who is in the sum that opens, and how many failed before."""
    invited = exclusion.invited(0, weights, present=weights.keys(), quorum=QUORUM)
    parts = exclusion.parts(0, invited, weights, RULES)
    assert set().union(*parts) == invited
    assert sum(map(len, parts)) == len(invited)
    failures = 0
    for left_out in (set(), *parts):
        rest = invited - left_out
        try:
            RULES.check(weights, rest)
        except Rejected:
            continue
        if not rest & culprits:
            exclusion.learn(0, rest, left_out)
            return rest, failures
        failures += 1
    exclusion.forget(0)
    return set(), failures


@given(st.integers(5, 60), st.data())
def test_a_culprit_is_found_before_a_run_is_closed(clients, data):
    culprit = data.draw(st.integers(0, clients - 1))
    samples = {client: data.draw(st.integers(100, 300)) for client in range(clients)}
    weights, exclusion, failed = RULES.weights(samples), Exclusion(), 0
    for _ in range(30):
        released, failures = play(exclusion, weights, {culprit})
        assert culprit not in released
        assert sum(weights[client] for client in released) >= QUORUM
        failed += failures
        if exclusion.found:
            break
    assert exclusion.found == {culprit}
    assert failed <= 12
    assert culprit not in everybody(exclusion, weights)
    assert play(exclusion, weights, {culprit}) == (set(weights) - {culprit}, 0)


def test_without_a_culprit_everybody_plays_every_round():
    weights, exclusion = dict.fromkeys(range(20), 0.05), Exclusion()
    for _ in range(10):
        assert play(exclusion, weights, set()) == (set(weights), 0)
    assert not exclusion.found


def test_who_was_suspected_and_did_nothing_plays_again():
    """A culprit that stops is no culprit; nobody stays shut out for having been beside it."""
    weights, exclusion = dict.fromkeys(range(20), 0.05), Exclusion()
    play(exclusion, weights, {4})
    for _ in range(10):
        play(exclusion, weights, set())
    assert everybody(exclusion, weights) == set(weights)
    assert not exclusion.found


def test_suspects_are_not_left_out_where_the_others_are_no_quorum():
    exclusion = Exclusion()
    exclusion.learn(0, {0}, {1, 2})
    weights = {0: 0.1, 1: 0.45, 2: 0.45}
    assert exclusion.invited(0, weights, present={0, 1, 2}, quorum=0.9) == {0, 1, 2}
    assert exclusion.invited(0, weights, present={1, 2}, quorum=0.5) == {0, 1, 2}
    assert len(exclusion.invited(0, weights, present={0, 1, 2}, quorum=0.5)) == 2


def test_clusters_have_suspects_of_their_own():
    exclusion = Exclusion()
    exclusion.learn(0, {0}, {1, 2, 3})
    weights = dict.fromkeys(range(4), 0.25)
    assert len(exclusion.parts(0, weights.keys(), weights, ReleaseRules(2))) == 2
    assert len(exclusion.parts(1, weights.keys(), weights, ReleaseRules(2))) == PARTS


def test_nobody_can_foresee_the_parts():
    """Two culprits that could would see to it that they are in different ones."""
    weights = {client: (client + 1) / 210 for client in range(20)}
    drawn = [Exclusion().parts(0, weights.keys(), weights, RULES) for _ in range(60)]
    together = sum(any({18, 19} <= part for part in parts) for parts in drawn)
    assert 0 < together < 60
    for parts in drawn:
        assert max(sum(weights[client] for client in part) for part in parts) <= 0.5


def test_a_small_cluster_is_searched_client_by_client():
    weights = dict.fromkeys(range(4), 0.25)
    assert sorted(map(len, Exclusion().parts(0, weights.keys(), weights, ReleaseRules(3)))) == [1, 1, 1, 1]
    assert sorted(map(len, Exclusion().parts(0, weights.keys(), weights, ReleaseRules(2)))) == [1, 1, 2]


class TestPartedSum:
    ROUND = Round("r", 0, 0, "model", 8, get_profile("insecure-test"), dict.fromkeys(range(4), 0.25))

    RULES = ReleaseRules(1)

    def parted(self):
        parted = PartedSum(self.ROUND, keypair("insecure-test")[0], [{0, 1}, {2}], tags=lambda _: [0, 1, 2])
        for client in range(3):
            mask = Mask.prefix(1, size=8, block=self.ROUND.block)
            protected = protect_model(
                np.ones(8), mask, self.ROUND, client=client, key=keypair("insecure-test")[0], seed=b"s", blinded=False
            )
            parted.add(protected.upload, sender=client)
        return parted

    def test_who_was_not_asked_is_not_added(self):
        with pytest.raises(Rejected, match="client 3 was not asked"):
            self.parted().add(b"", sender=3)

    def test_other_refusals_are_not_taken_for_a_mismatch(self):
        def busy(_):
            raise Refused("busy", "later", "wait")

        with pytest.raises(Refused, match="later"):
            Exclusion().release(self.parted(), self.RULES, busy)

    def test_the_first_refusal_is_told_if_nothing_helps(self):
        def never(part):
            raise Refused(MISMATCH, f"without {part}", "look")

        with pytest.raises(Refused, match="without None"):
            Exclusion().release(self.parted(), self.RULES, never)

    def test_parts_are_left_out_one_after_another(self):
        asked = []

        def only_without_the_second(part):
            asked.append(part)
            if part != 1:
                raise Refused(MISMATCH, "no", "look")

        parted, exclusion = self.parted(), Exclusion()
        assert parted.of_part(exclusion.release(parted, self.RULES, only_without_the_second)) == (2,)
        assert exclusion.found == {2}
        assert asked == [None, 0, 1]
        assert exclusion.release(parted, self.RULES, only_without_the_second, first=1) == 1
        assert asked[3:] == [1]

    def test_what_the_key_server_would_refuse_is_not_handed_in(self):
        asked = []

        def never(part):
            asked.append(part)
            raise Refused(MISMATCH, "no", "look")

        with pytest.raises(Refused):
            Exclusion().release(self.parted(), ReleaseRules(2), never)
        assert asked == [None, 1]  # without the first part there is one left
        with pytest.raises(Rejected, match="at least 4"):
            Exclusion().release(self.parted(), ReleaseRules(4), never)

    def test_parts_add_up(self):
        parted = self.parted()
        assert parted.total().contributors == (0, 1, 2)
        assert parted.total(without=0).contributors == (2,)
        with pytest.raises(Rejected, match="a client in common"):
            parted.total().absorb(parted.total(without=0))
