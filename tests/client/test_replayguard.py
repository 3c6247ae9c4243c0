"""A client plays every attempt once, in order, and never goes back to an older model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sensecrypt.client.data import as_data
from sensecrypt.client.replayguard import ReplayGuard
from sensecrypt.errors import Rejected
from sensecrypt.protocol.requests import Assignment

DATA = as_data(torch.zeros(3, 2))
FIRST = Assignment(0, 0, 0, 1.0, None, refresh=False)
SECOND = Assignment(0, 1, 0, 1.0, (0, 0), refresh=False)


@pytest.fixture
def guard(tmp_path):
    return ReplayGuard(tmp_path, "run", DATA)


def test_rounds_and_attempts_follow_each_other(guard):
    guard.begin(FIRST)
    guard.begin(replace(FIRST, attempt=2))
    guard.begin(SECOND)
    guard.begin(replace(SECOND, number=4, start=(3, 0)))  # it was away meanwhile
    guard.require_latest(replace(SECOND, start=(4, 1)))


@pytest.mark.parametrize("again", [SECOND, replace(SECOND, budget=0.001), FIRST, replace(FIRST, attempt=7)])
def test_nothing_is_played_twice_or_backwards(guard, again):
    guard.begin(FIRST)
    guard.begin(SECOND)
    with pytest.raises(Rejected, match="was requested after"):
        guard.begin(again)


def test_an_older_model_is_not_started_from(guard):
    guard.begin(replace(SECOND, number=5, start=(4, 0)))
    for start in (None, (0, 0), (3, 9)):
        with pytest.raises(Rejected, match="the model of the round before"):
            guard.begin(replace(SECOND, number=6, start=start))
        with pytest.raises(Rejected, match="was requested after one of round 4"):
            guard.require_latest(replace(SECOND, number=6, start=start))


@pytest.mark.parametrize("start", [None, (1, 0), (3, 0), (7, 0)])
def test_two_rounds_never_start_from_one_model(guard, start):
    """One released with a client and one without it would differ by just that client."""
    guard.begin(replace(SECOND, number=2, start=(1, 0)))
    with pytest.raises(Rejected, match="the model of the round before"):
        guard.begin(replace(SECOND, number=3, start=start))
    with pytest.raises(Rejected, match="the model of the round before"):
        guard.begin(replace(SECOND, number=9, start=start))
    guard.begin(replace(SECOND, number=3, start=(2, 1)))


def test_it_is_kept_over_processes(guard, tmp_path):
    guard.begin(SECOND)
    with pytest.raises(Rejected):
        ReplayGuard(tmp_path, "run", DATA).begin(SECOND)


def test_a_client_stays_in_its_first_cluster(guard):
    guard.rank(FIRST)
    guard.begin(FIRST)
    with pytest.raises(Rejected, match="cluster 1 was requested after cluster 0"):
        guard.begin(replace(SECOND, cluster=1))
    guard.begin(SECOND)


def test_parameters_are_ranked_before_the_first_round_and_in_one_cluster(guard):
    """Rankings with other weights, or in other clusters, would be equations about one client's sensitivities."""
    guard.rank(FIRST)
    with pytest.raises(Rejected, match="ranking, attempt 0 was requested after ranking, attempt 0"):
        guard.rank(FIRST)
    with pytest.raises(Rejected, match="only before the first round"):
        guard.rank(replace(FIRST, number=1))
    with pytest.raises(Rejected, match="cluster 2 was requested after cluster 0"):
        guard.rank(replace(FIRST, attempt=1, cluster=2))
    guard.rank(replace(FIRST, attempt=1))
    guard.begin(FIRST)
    with pytest.raises(Rejected, match="ranking, attempt 9 was requested after round 0, attempt 0"):
        guard.rank(replace(FIRST, attempt=9))


def test_the_final_model_is_the_own_cluster_s(guard):
    guard.begin(FIRST)
    with pytest.raises(Rejected, match="cluster 1 was requested after cluster 0"):
        guard.require_latest(replace(SECOND, cluster=1))
    guard.require_latest(SECOND)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"played": [0, 0], "start": [-1, -1]}'])
def test_who_does_not_know_what_it_played_plays_nothing(guard, tmp_path, content):
    guard.begin(FIRST)
    (tmp_path / "run" / "played.json").write_text(content)
    with pytest.raises(Rejected, match="is damaged"):
        guard.begin(SECOND)
