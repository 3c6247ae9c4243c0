"""`sensecrypt advise` on embedded data: costs and verdicts, measured for the question."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.cli.run import choose_dataset


def test_costs_and_verdicts_for_a_fleet():
    arguments = ["advise", "--seeds", "3", "--batch", "20", "--set", "clients=5", "--set", "cpus=8,4,2,1", "--json"]
    result = CliRunner().invoke(main, [*arguments, "--set", "workers=1"])
    assert result.exit_code == 0, result.output
    entries = {entry["preset"]: entry for entry in json.loads(result.stdout)["entries"]}
    presets = [
        "plaintext",
        "paper",
        "default",
        "default, rest plain",
        "blinding only",
        "default, Paillier",
    ]
    assert list(entries) == [*presets, "everything"]
    assert entries["plaintext"]["times_plaintext"] == 1.0
    assert entries["paper"]["times_plaintext"] > entries["default"]["times_plaintext"] > 1.0
    learns = {
        name: {each["adversary"]: each["learns"] for each in entry["adversaries"]} for name, entry in entries.items()
    }
    assert learns["plaintext"]["zero-fill"]
    assert learns["paper"]["sensitivity"]
    assert not any(learns["everything"].values())
    assert not any(learns["default"].values())
    assert not any(learns["blinding only"].values())


def test_two_data_sets_are_one_too_many():
    for command in ("advise", "compare"):
        result = CliRunner().invoke(main, [command, "--set", "dataset=mnist", "--dataset", "digits"])
        told = "Error: --dataset: is digits, and --set dataset is mnist; give one of them\n"
        assert (result.exit_code, result.output) == (2, told)


@pytest.mark.parametrize(
    ("option", "told", "chosen"),
    [(None, None, "digits"), ("mnist", None, "mnist"), (None, "mnist", "mnist"), ("mnist", "mnist", "mnist")],
)
def test_the_data_set_may_be_given_either_way(option, told, chosen):
    assert choose_dataset(option, {} if told is None else {"dataset": told}) == chosen


def test_a_mistake_is_told_in_one_line():
    for change, hint in (("cpus=0", "pass a number in"), ("nonsense=1", "no key"), ("dataset", "KEY=VALUE")):
        result = CliRunner().invoke(main, ["advise", "--set", change])
        assert result.exit_code == 2
        assert hint in result.output
