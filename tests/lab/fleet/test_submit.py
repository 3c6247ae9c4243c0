"""Submitting and following, with Flower's and the key service's answers made up."""

from __future__ import annotations

import json
import threading

import pytest

from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput, SenseCryptError, ServiceError, Unreachable
from sensecrypt.lab.fleet import flower, submit
from sensecrypt.lab.fleet.submit import Submitted
from sensecrypt.runs.folder import RunFolder

CONFIG = make_config({"clients": 2, "min_contributors": 2, "partition": "iid"})


@pytest.fixture
def up(own, monkeypatch):
    """A folder whose fleet seems to be up; `calls` tells what was asked of whom."""
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(submit, "register", lambda folder, description, config, run: calls.append(("register", run)))
    monkeypatch.setattr(flower, "submit_app", lambda folder, app: calls.append(("submit", app.name)) or "77")
    monkeypatch.setattr(flower, "stop_run", lambda folder, number: calls.append(("stop", number)))
    monkeypatch.setattr(flower, "run_status", lambda folder, number: ("running", "N/A"))
    monkeypatch.setattr(flower, "run_log", lambda folder, number: "what the ServerApp said")
    monkeypatch.setattr(submit, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(submit, "_ASK_SECONDS", 0.02)
    with own.held():
        yield own, calls


def test_a_run_is_registered_then_submitted_and_resumed_without_registration(up):
    folder, calls = up
    first = submit.submit(folder, CONFIG, run="a")
    assert (first.run, first.number) == ("a", "77")
    assert calls == [("register", "a"), ("submit", "a")]
    with pytest.raises(InvalidInput, match="a has not begun in this fleet"):
        submit.submit(folder, CONFIG, run="a", resume=True)
    submit.submit(folder, CONFIG, run="a")
    assert calls[2:] == [("stop", "77"), ("register", "a"), ("submit", "a")]
    RunFolder(folder.run("a")).create(CONFIG)
    with pytest.raises(InvalidInput, match="a is a run of this fleet already"):
        submit.submit(folder, CONFIG, run="a")
    submit.submit(folder, CONFIG, run="a", resume=True)
    assert calls[5:] == [("stop", "77"), ("submit", "a")]


def test_a_run_without_a_name_has_one_that_the_key_service_takes(up):
    assert submit.submit(up[0], CONFIG).run.startswith("20")


def test_nothing_is_registered_for_what_cannot_be_played(up):
    folder, calls = up
    for options in ({"run": "a b"}, {"deadline": 0}, {"enrol_seconds": -1}, {"run": "none", "resume": True}):
        with pytest.raises(InvalidInput):
            submit.submit(folder, CONFIG, **options)
    with pytest.raises(InvalidInput, match="clients"):
        submit.submit(folder, make_config({}))
    assert calls == []


def test_a_fleet_that_is_not_up(own):
    with pytest.raises(ServiceError, match="has no fleet that is up"):
        submit.submit(own, CONFIG)


def test_rounds_are_told_as_they_come_and_an_earlier_outcome_does_not_count(up):
    folder, _ = up
    run = folder.run("a")
    run.mkdir()
    (run / "outcome.json").write_text('{"error": "of the first attempt"}')
    lines = [
        {"client": 0, "cluster": 0, "round": -1},
        *({"client": client, "cluster": 0, "round": 0, "encrypted_share": client} for client in (0, 1)),
        {"server": True, "cluster": 0, "round": 0},
        *({"evaluated": client, "round": 0, "accuracy": 0.25 + client / 2} for client in (0, 1)),
        {"client": 0, "cluster": 0, "round": 1, "left_out": "late"},
    ]
    (run / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"client": 0, "rou')
    submitted = Submitted(folder, "a", "77", submit._stamp(run))
    told: list[tuple[int, float, float]] = []

    def on_round(*what) -> None:
        told.append(what)
        if len(told) == 2:
            (run / "new").write_text("{}")
            (run / "new").replace(run / "outcome.json")

    submitted.wait(20, on_round=on_round)
    assert told == [(0, 0.5, 0.5), (1, 0.5, 0.0)]


def test_a_run_that_ends_without_an_outcome_says_which_log_to_read(up, monkeypatch):
    answers = iter([("pending", "N/A"), ("running", "N/A"), ("finished:failed", "no such module")])
    monkeypatch.setattr(flower, "run_status", lambda folder, number: next(answers))
    submitted = Submitted(up[0], "a", "77", None)
    with pytest.raises(SenseCryptError, match=r"finished:failed, no such module\); read .*run-a\.log, then continue"):
        submitted.wait(20)
    assert up[0].log("run-a").read_text() == "what the ServerApp said"


def test_a_superlink_that_is_away_is_waited_for(up, monkeypatch):
    def away(*_):
        raise SenseCryptError("SuperLink is away")

    monkeypatch.setattr(flower, "run_status", away)
    run = up[0].run("a")
    run.mkdir()
    timer = threading.Timer(0.2, lambda: (run / "outcome.json").write_text("{}"))
    timer.start()
    Submitted(up[0], "a", "77", None).wait(20)
    timer.join()
    with pytest.raises(Unreachable, match="has not ended after 0 s"):
        Submitted(up[0], "b", "77", None).wait(0.1)


def test_a_fleet_that_went_down_is_not_waited_for(own, monkeypatch):
    monkeypatch.setattr(submit, "_ASK_SECONDS", 0.02)
    with pytest.raises(ServiceError, match="has no fleet that is up"):  # and no SuperLink that could be asked
        Submitted(own, "a", "77", None).wait(60)


def test_what_flower_complains_about_is_one_line(own, monkeypatch, tmp_path):
    def flwr(text: str) -> None:
        path = tmp_path / "flwr"
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        path.chmod(0o755)
        monkeypatch.setattr(flower, "flower_command", lambda name: str(path))

    flwr('{"success": false, "error-message": "no\\nSuperLink"}')
    with pytest.raises(SenseCryptError, match=r"^flwr list: no SuperLink; read .*superlink\.log$"):
        flower.run_status(own, "1")
    flwr('{"success": false, "error-message": "Run ID not found."}')
    assert flower.run_status(own, "1")[0] == "finished:forgotten"
    flwr("not even JSON")
    with pytest.raises(SenseCryptError, match="flwr run: not even JSON"):
        flower.submit_app(own, tmp_path)
    flwr('{"success": false, "error-message": "Public key already in use"}')
    flower.register_node(own, tmp_path / "n0.pub")
    flwr('{"success": true, "nodes": [{"status": "online"}, {"status": "offline"}]}')
    assert flower.count_online(own) == 1
