from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from sensecrypt import InfeasibleSelection, InvalidInput, __version__
from sensecrypt.cli import main
from sensecrypt.cli.mistakes import Commands


def sensecrypt(*arguments: str) -> str:
    """Standard output of the real command in a process of its own."""
    command = [sys.executable, "-m", "sensecrypt", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def commands(group: click.Group, path: tuple[str, ...] = ()):
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_help_at_every_level(path):
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_version():
    assert __version__ in CliRunner().invoke(main, ["--version"]).output


def test_the_installed_command_works():
    assert sensecrypt("--version").startswith("sensecrypt, version ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("clients", "is 0", "pass at least 1"), 2),
        (InfeasibleSelection(budget=1, needed_for_security=2, needed_for_mi=None, total=3), 1),
    ],
)
def test_our_errors_are_one_line_and_an_exit_code(error, code):
    @click.group(cls=Commands)
    def root() -> None: ...

    @root.group()
    def inner() -> None: ...

    @inner.command()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(root, ["inner", "fail"])
    assert result.exit_code == code
    assert result.output == f"Error: {error}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["benhc"],
        ["bench", "selection", "--sizes", "ten"],
        ["bench", "selection", "--sizes", "1"],
        ["bench", "clustering", "--repeats", "0"],
        ["bench", "clustering", "--seed", "-1"],
    ],
)
def test_a_users_mistake_exits_2_without_a_traceback(arguments):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_bench_selection_gives_json_with_both_sides():
    report = json.loads(sensecrypt("bench", "selection", "--sizes", "1000", "--repeats", "1", "--json"))
    [row] = report["against_highs"]
    assert row["highs_seconds"] > 0
    assert row["ours_seconds"] > 0
    # Ours is an integer solution: never below the relaxation's bound, and within one parameter of it.
    assert row["highs_lower_bound"] - 1e-9 <= row["ours_objective"] <= row["highs_lower_bound"] + 1 / row["parameters"]
    assert [growth["parameters"] for growth in report["growth"]] == [1000]


def test_bench_clustering_shows_a_table():
    output = sensecrypt("bench", "clustering", "--sizes", "20", "--repeats", "1")
    assert "sensecrypt" in output
    assert "1.000" in output


def test_bench_clustering_on_real_sketches():
    arguments = ["bench", "clustering", "--real", "digits", "--sizes", "20", "--repeats", "1", "--json"]
    report = json.loads(sensecrypt(*arguments, "--partition", "categories:4"))
    assert report["data"] == "digits, categories:4"
    assert [(row["clusters"], row["ari"]) for row in report["rows"]] == 3 * [(4, 1.0)]
    ours, *others = report["rows"]
    assert ours["ratio"] == 1.0
    assert all(row["ratio"] == row["seconds"] / ours["seconds"] for row in others)
    spread = json.loads(sensecrypt(*arguments, "--partition", "dirichlet:0.5"))["rows"]
    assert [row["ari"] for row in spread] == [None, None]
    assert "affinity propagation found" in spread[0]["why"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("demoo", "Did you mean 'demo'?"),
        ("keys genrate", "Did you mean 'generate'?"),
        ("run --preste paper", "'--preset'"),
        ("attack --bacth 3", "'--batch'"),
        ("run --rounds 5", "--set rounds=VALUE"),
        ("advise --min-contributors 2", "--set min_contributors=VALUE"),
        ("run --set rouns=5", "did you mean 'rounds'?"),
        ("advise --set rouns=5", "did you mean 'rounds'?"),
        ("settings rouns", "did you mean 'rounds'?"),
    ],
)
def test_a_typing_error_is_answered_with_the_right_name(arguments, hint):
    result = CliRunner().invoke(main, arguments.split())
    assert result.exit_code == 2
    assert hint in result.output


@pytest.mark.parametrize("command", ["demo", "advise", "compare"])
def test_without_the_lab_they_say_what_to_install(monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sensecrypt.extras.missing_modules", lambda extra: ["phe"] if extra == "lab" else [])
    result = CliRunner().invoke(main, [command])
    assert result.exit_code == 2
    assert f"sensecrypt {command}" in result.output
    assert "[lab]" in result.output
    assert not list(tmp_path.iterdir())
