"""M3: the certificate of an aggregator is good for the runs that name it, and for no other.

Before, any certificate with that role registered rounds, read members' names and submitted sums in every run.
"""

from __future__ import annotations

import pytest

from sensecrypt.errors import Refused
from sensecrypt.protocol.round import address_of
from tests.keyservice.rounds import Played


def test_another_runs_aggregator_is_refused_everything(server):
    played = Played(server)
    round_, later = played.register(played.round()), played.round(1)
    whole = played.upload(round_)
    with server.identity("aggregator", "mallory") as mallory:
        for ask in (
            lambda: mallory.run(played.run),
            lambda: mallory.public_key(played.run),
            lambda: mallory.register_round(later),
            lambda: mallory.tags(round_),
            lambda: mallory.release(whole.to_bytes(round_), round_),
        ):
            with pytest.raises(Refused) as refusal:
                ask()
            assert refusal.value.code == "not-the-aggregator"
        with pytest.raises(Refused) as refusal:
            mallory.task(address_of(round_))  # no aggregator is given what members are
        assert refusal.value.code == "wrong-role"
    assert played.events("sum-claimed") == []
    assert played.release(whole, round_).contributors == (0, 1, 2, 3)  # its own goes on undisturbed


def test_a_run_may_name_several_and_none_of_its_members(server):
    played = Played(server)
    good = {"size": 100, "profile": "insecure-test", "members": played.members, "min_contributors": 2}
    with played.admin() as admin:
        admin.register_run("two", **good, aggregators=["first", "second"])
        for wrong, code in ((["phone-0"], "outside-policy"), ([], "invalid-request"), (["a/b"], "invalid-request")):
            with pytest.raises(Refused) as refusal:
                admin.register_run("none", **good, aggregators=wrong)
            assert refusal.value.code == code
    for name in ("first", "second"):
        with server.identity("aggregator", name) as aggregator:
            assert aggregator.run("two")["aggregators"] == ["first", "second"]
    with server.identity("aggregator", "aggregator") as other, pytest.raises(Refused):
        other.run("two")
