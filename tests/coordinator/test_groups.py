"""A fleet whose key service releases sums of fixed groups only: the honest aggregator adds whole groups."""

from __future__ import annotations

import pytest

from sensecrypt.runs.folder import RunFolder
from tests.keyservice.conftest import make_server
from tests.transports.flower.conftest import SMALL, LoopFleet
from tests.transports.flower.conftest import pki as pki


@pytest.fixture(scope="module")
def strict(tmp_path_factory, pki):
    server = make_server(tmp_path_factory.mktemp("fixed") / "service", pki, groups="fixed")
    server.start()
    yield server
    assert server.end() == 0


def test_whoever_s_group_is_not_whole_is_left_out_and_the_run_goes_on(strict, tmp_path):
    settings = {**SMALL, "clients": 6, "min_contributors": 3, "rounds": 2, "policy": "plaintext"}
    played = LoopFleet(strict, tmp_path, settings, conditions="fixed_groups = true\n")
    played.register()

    def before(client, kind, message):
        away = kind == "train" and client == 4 and RunFolder(played.state).records()[-1].round == 0
        return None if away else message

    played.before = before
    outcome = played.play()
    taken = [{record.client for record in outcome.played if record.round == number} for number in range(2)]
    assert taken == [set(range(6)), {0, 1, 2}]
    why = {record.client: record.left_out for record in outcome.records if record.left_out is not None}
    assert why[3] == why[5] == "its group is incomplete, and sums are of whole groups"
    assert "no answer" in why[4]
