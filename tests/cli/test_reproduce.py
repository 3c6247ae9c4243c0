from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.lab.experiments import catalogue
from sensecrypt.lab.experiments.item import OUTCOMES, Verdict
from tests.lab.experiments.toy import Counting

SPEC = '[quick]\nvalues = [1, 2]\ndataset = "digits"\n[full]\nvalues = [1]\ndataset = "digits"\n'


@pytest.fixture
def toy(tmp_path, monkeypatch):
    counting = Counting()
    monkeypatch.setattr(catalogue, "ITEMS", {"toy": counting.item})
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "toy.toml").write_text(SPEC)
    return counting


def call(tmp_path, *arguments):
    places = ["--specs", str(tmp_path / "specs"), "--out", str(tmp_path / "out")]
    return CliRunner().invoke(main, ["reproduce", *arguments, *places])


def test_an_item_is_measured_drawn_and_judged(tmp_path, toy):
    answer = call(tmp_path, "toy")
    assert answer.exit_code == 0, answer.output
    assert "2 of them" in answer.output
    assert "reproduced" in answer.output
    assert sorted(path.name for path in (tmp_path / "out" / "toy").iterdir()) == ["figure.png", "rows.csv", "rows.json"]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_can_be_shown(tmp_path, toy, monkeypatch, outcome):
    item = replace(toy.item, judge=lambda _: [Verdict("squares", "two of them", outcome)])
    monkeypatch.setattr(catalogue, "ITEMS", {"toy": item})
    answer = call(tmp_path, "toy")
    assert answer.exit_code == 0, answer.output
    assert outcome.split()[-1] in answer.output


def test_what_is_there_is_not_measured_again(tmp_path, toy):
    call(tmp_path, "toy")
    assert "measured on" in call(tmp_path, "toy").output
    assert toy.asked == [1, 2]
    call(tmp_path, "toy", "--again")
    assert toy.asked == [1, 2, 1, 2]
    call(tmp_path, "toy", "--full")
    assert toy.asked == [1, 2, 1, 2, 1]
    call(tmp_path, "toy", "--full", "--set", "values=[4]")
    assert toy.asked[-1] == 4


def test_json_has_verdicts_and_rows(tmp_path, toy):
    answer = json.loads(call(tmp_path, "all", "--json").stdout)
    found = answer["items"]["toy"]
    assert found["verdicts"] == [{"says": "squares | are squares", "measured": "2 of them", "outcome": "reproduced"}]
    assert [row["square"] for row in found["rows"]] == [1.0, 4.0]


def test_the_list_tells_how_long(tmp_path, toy):
    answer = call(tmp_path, "--list")
    assert "toy" in answer.output
    assert "3 s" in answer.output


def test_an_interruption_tells_how_to_go_on(tmp_path, toy):
    toy.fail_at = 2
    answer = call(tmp_path, "toy")
    assert answer.exit_code == 1
    assert "repeat the command to continue" in answer.output
    toy.fail_at = None
    assert call(tmp_path, "toy").exit_code == 0
    assert toy.asked == [1, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name one or `all`"),
        (["tou"], "did you mean 'toy'?"),
        (["something"], "sensecrypt reproduce --list"),
        (["toy", "--set", "rounds=3"], "changes nothing"),
        (["toy", "--set", "rounds"], "write KEY=VALUE"),
        (["toy", "--set", "values=3"], "give a value like [1, 2]"),
        (["toy", "--set", "dataset=mnist"], "SENSECRYPT_DATA"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path, toy, monkeypatch, arguments, message):
    monkeypatch.setenv("SENSECRYPT_DATA", str(tmp_path / "nothing"))
    answer = call(tmp_path, *arguments)
    assert answer.exit_code == 2
    assert message in answer.output
    assert "Traceback" not in answer.output
    assert toy.asked == []


def test_the_document_is_written_from_what_is_saved(tmp_path, toy):
    call(tmp_path, "toy")
    document = tmp_path / "results.md"
    answer = call(tmp_path, "--document", str(document))
    assert answer.exit_code == 0, answer.output
    assert "out/toy/figure.png" in document.read_text()
