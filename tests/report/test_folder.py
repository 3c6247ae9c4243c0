from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sensecrypt.errors import InvalidInput
from sensecrypt.protocol.envelope import serialize
from sensecrypt.report.folder import read_folder, stamp
from sensecrypt.report.runpage import run_page
from sensecrypt.runs.folder import RunFolder


def test_a_run_that_is_over(played):
    seen = read_folder(played)
    assert (seen.state, seen.rounds, seen.fleet) == ("finished", 3, False)
    assert set(seen.places) == set(range(8))
    assert all(0 <= value <= 1 for value in seen.outcome.accuracy)
    assert seen.outcome.why_clusters


def test_the_aggregator_of_a_fleet(fleet):
    seen = read_folder(fleet)
    assert (seen.state, seen.rounds, seen.fleet) == ("finished", 3, True)
    assert set(seen.places) == set(range(8))
    assert not any(math.isnan(value) for value in seen.outcome.accuracy)
    assert math.isnan(next(record for record in seen.outcome.records if record.round == 0).accuracy)


def test_a_fleet_that_failed(fleet):
    (fleet / "outcome.json").write_text(json.dumps({"error": "no quorum"}))
    seen = read_folder(fleet)
    assert (seen.state, seen.failure) == ("failed", "no quorum")


def test_a_run_that_is_still_being_written(run):
    for model in run.glob("model-*"):
        model.unlink()
    whole = (run / "records.jsonl").read_text()
    (run / "records.jsonl").write_text(whole[:-40])
    seen = read_folder(run)
    assert seen.state == "running"
    assert len(seen.outcome.log) == len(RunFolder(run).records()) == whole.count("\n") - 1


def test_a_run_before_its_first_record(run):
    for name in ("records.jsonl", "checkpoint.safetensors", "map.json", "model-0.safetensors", "model-1.safetensors"):
        (run / name).unlink()
    seen = read_folder(run)
    assert (seen.state, seen.rounds, seen.places) == ("running", 0, {})


def test_descriptions_that_were_kept_give_a_map(run):
    folder = RunFolder(run)
    for client in range(8):
        row = read_folder(run).places[client]
        folder.keep_message(-1, f"description-{client}", serialize("description", {}, {"row": np.array(row)}))
    (run / "map.json").unlink()
    assert set(read_folder(run).places) == set(range(8))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "is empty"),
        ({"notes.txt": "hello"}, "holds no run"),
        ({"run.json": "{"}, "holds no run"),
        ({"run.json": "[]"}, "is no file of a run"),
        ({"run.json": "{}"}, "is no file of a run"),
        ({"run.json": '{"version": 1, "config": {}}'}, "version 1"),
        ({"run.json": '{"version": 3, "config": {"warp": 9}}'}, "not a key of a run's configuration"),
        ({"run.json": '{"version": 3, "config": {"rounds": "many"}}'}, "is 'many'"),
    ],
    ids=str,
)
def test_folders_without_a_run_are_named_with_a_fix(tmp_path, content, problem):
    for name, text in (content or {}).items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=problem):
        read_folder(tmp_path)


def test_a_folder_that_is_not_there_or_a_file(tmp_path):
    with pytest.raises(InvalidInput, match="is not there"):
        read_folder(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="is no folder"):
        read_folder(tmp_path / "file")


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "{}",
        '{"round": "one"}',
        '{"round": -2}',
        '{"round": 0, "client": 0, "cluster": 0}',
        '{"round": 0, "client": 99, "cluster": 0, "left_out": "late"}',
        '{"round": -1, "client": 0, "cluster": 0, "train_seconds": "long"}',
        '{"round": 0, "evaluated": 0, "accuracy": "good"}',
    ],
)
def test_records_that_no_run_writes(run, line):
    with (run / "records.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InvalidInput, match="is damaged"):
        read_folder(run)


def test_a_map_that_no_run_draws(run):
    for content in ("{}", "[1]", '[["a", "b"]]'):
        (run / "map.json").write_text(content)
        if content == "{}":
            assert read_folder(run).places == {}
            continue
        with pytest.raises(InvalidInput, match="no map"):
            read_folder(run)


def test_attacks_that_were_saved(run):
    rows = [{"adversary": "prior", "irec": 0.2, "share": 0.5}]
    (run / "attack-client-0.json").write_text(json.dumps({"rows": rows}))
    (run / "attack-broken.json").write_text("{")
    (run / "attack-foreign.json").write_text('{"rows": [1]}')
    assert read_folder(run).attacks == {"attack-client-0": rows}


def test_the_stamp_changes_with_what_is_written(run):
    before = stamp(run)
    assert stamp(run) == before
    with (run / "records.jsonl").open("a") as file:
        file.write("half a li")
    assert stamp(run) != before
    assert stamp(run / "none") == ()


def test_who_took_no_part_in_a_fleet_s_run_is_told_and_not_on_the_map(fleet):
    told = json.loads((fleet / "outcome.json").read_text())
    told["clusters"][3] = -1
    (fleet / "outcome.json").write_text(json.dumps(told))
    lines = [json.loads(line) for line in (fleet / "records.jsonl").read_text().splitlines()]
    lines = [line for line in lines if 3 not in (line.get("client"), line.get("evaluated"))]
    lines += [{"round": 1, "node": 7, "refused": "no certificate"}] * 2
    (fleet / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    seen = read_folder(fleet)
    assert seen.absences[0] == "client 3 took no part in the run, or not to its end"
    assert seen.absences.count("a node was refused: no certificate") == 1
    page = run_page(seen)
    assert any("Client 3 took no part" in sentence for sentence in page.findings)
    assert {row[1] for row in page.tables["map"].rows} == {0, 1}
