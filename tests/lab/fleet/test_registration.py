from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensecrypt.client.problem import configured_problem
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.keyservice.http.runs import Run
from sensecrypt.keyservice.names import check_name
from sensecrypt.lab.fleet import registration
from sensecrypt.lab.fleet.folder import Description
from sensecrypt.lab.fleet.registration import check_config, ranges
from sensecrypt.models import always_encrypt


@given(st.lists(st.booleans(), max_size=40))
def test_ranges_are_the_flags_in_order_and_apart(flags):
    found = ranges(np.array(flags, dtype=bool))
    assert [index for start, stop in found for index in range(start, stop)] == list(np.flatnonzero(flags))
    assert all(stop < start for (_, stop), (start, _) in itertools.pairwise(found))


def test_the_key_service_sees_the_flags_that_the_local_engine_uses():
    config = make_config({"clients": 2, "partition": "iid"})
    problem = configured_problem(config)
    size, first = registration.size_and_first(config)
    run = Run(run="r", size=size, profile=config.encryption.profile, aggregators=["a"], first=first)
    flags = run.flags()
    assert flags is not None
    assert (flags == always_encrypt(problem.build(), problem.classes)).all()


@pytest.mark.parametrize("settings", [{"always_encrypt": "nothing"}, {"policy": "full"}, {"preset": "paper"}])
def test_nothing_comes_first_where_the_configuration_does_not_ask_for_it(settings):
    assert registration.size_and_first(make_config({"clients": 2, "partition": "iid", **settings}))[1] == []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"clients": 5}, "clients: is 5, and the fleet has 4; leave it out"),
        ({"clients": 4, "min_contributors": 5}, "min_contributors: is 5, the fleet has 4 clients; choose 2 to 4"),
        ({"clients": 4, "min_contributors": 1}, "min_contributors: is 1"),
        ({"clients": 4, "crypto": "calibrated"}, "crypto: calibrated is for one machine"),
        (
            {"clients": 4, "key_mode": "shared-key", "profile": "paillier-2048"},
            "key_mode: shared-key is for one machine",
        ),
    ],
)
def test_what_a_fleet_cannot_play(settings, problem):
    with pytest.raises(InvalidInput, match=problem):
        check_config(make_config(settings), Description(4, False))


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "-x", "a b", "x" * 64, "naïve"])
def test_names_that_the_key_service_would_not_take(name):
    with pytest.raises(InvalidInput, match="--name: is"):
        check_name("--name", name)


def test_names_that_it_takes():
    for name in ("2026-11-16-101500", "a", "x" * 63, "Run_1.b"):
        assert check_name("--name", name) == name
