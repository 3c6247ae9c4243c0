"""Commands that are printed to be repeated can be repeated."""

from __future__ import annotations

import shlex

import pytest

from sensecrypt.cli.again import command_line
from sensecrypt.cli.app import main


def context(words):
    """The command's context, as click makes it, and the words that it was given."""
    ctx = main.make_context("sensecrypt", list(words), resilient_parsing=False)
    name, command, rest = main.resolve_command(ctx, list(words))
    return command.make_context(name, rest, parent=ctx)


@pytest.mark.parametrize(
    "line",
    [
        "sensecrypt demo",
        "sensecrypt demo --rounds 3",
        "sensecrypt compare --scenario extreme --policies 'plaintext,sensecrypt+rest=plain' --set 'cpus=8,4; 2,1'",
        "sensecrypt compare --own-ratio --rounds 3 --crypto real",
    ],
)
def test_a_repeated_command_has_the_same_parameters(line):
    first = context(shlex.split(line)[1:])
    again = shlex.split(command_line(first))
    assert again[0] == "sensecrypt"
    assert context(again[1:]).params == first.params


def test_where_results_go_is_left_out_and_more_can_be_added():
    ctx = context(shlex.split("compare --rounds 3 --out /tmp/x --json --no-report"))
    assert command_line(ctx) == "sensecrypt compare --rounds 3"
    assert command_line(ctx, "--out", "a b", "--resume") == "sensecrypt compare --rounds 3 --out 'a b' --resume"
