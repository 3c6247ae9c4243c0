"""Records: as they are written, they are read again; what no run writes is named."""

from __future__ import annotations

import json

import pytest

from sensecrypt.errors import InvalidInput
from sensecrypt.records import (
    ClientRecord,
    Evaluation,
    Facts,
    Refusal,
    ServerRecord,
    grown,
    read_record,
    to_fields,
)
from sensecrypt.runs.folder import RunFolder

CLIENT = ClientRecord(round=1, cluster=0, client=3, bytes_up=10, encrypted_share=0.5, layers={"a": [1, 2]})
RECORDS = [
    CLIENT,
    ServerRecord(round=1, cluster=0, add_seconds=0.5, added_blocks=4),
    Evaluation(round=1, evaluated=3, accuracy=0.5),
    Refusal(round=1, refused="no certificate", node=7),
    ClientRecord(round=-1, cluster=0, client=3, noise="vector"),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_survives(record):
    assert read_record(json.loads(json.dumps(to_fields(record)))) == record


def test_what_is_not_known_is_not_written_but_findings_of_nothing_are():
    assert to_fields(CLIENT).keys() == {
        *("round", "cluster", "client", "bytes_up", "encrypted_share", "layers", "mi"),
    }
    assert to_fields(RECORDS[-1])["local_epsilon"] is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"speed": 1}, "speed"),
        ({"bytes_up": "many"}, "bytes_up"),
        ({"bytes_up": None}, "bytes_up"),
        ({"bytes_up": True}, "bytes_up"),
        ({"round": 0.5}, "round"),
    ],
)
def test_what_no_run_writes_is_named(tmp_path, change, named):
    with pytest.raises(InvalidInput) as error:
        read_record({**to_fields(CLIENT), **change})
    assert error.value.argument == named
    lines = [to_fields(CLIENT), {**to_fields(CLIENT), **change}]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InvalidInput, match=f"line 2: {named} ") as error:
        RunFolder(tmp_path).records()
    assert len(str(error.value)) < 300 + len(str(tmp_path))


@pytest.mark.parametrize("content", [[], "x", {}, {"client": 1}, {"server": True}])
def test_what_is_no_record_is_refused(content):
    with pytest.raises(InvalidInput):
        read_record(content)


def test_numbers_grow_and_everything_else_is_set():
    more = grown(CLIENT, Facts(bytes_up=5, train_seconds=1.0, decided_by="deadline"))
    assert (more.bytes_up, more.train_seconds, more.decided_by) == (15, 1.0, "deadline")
    assert CLIENT.bytes_up == 10
