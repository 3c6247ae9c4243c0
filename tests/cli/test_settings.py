"""`sensecrypt settings`: everything that can be set, in 80 columns."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.config import SETTINGS, make_config, setting_text, to_settings


def settings(*arguments):
    result = CliRunner().invoke(main, ["settings", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_setting_stands_there_with_meaning_default_and_preset():
    text, listed = settings(), json.loads(settings("--json"))
    assert list(listed) == list(SETTINGS)
    for name, each in SETTINGS.items():
        assert f"\n{name} = {listed[name]['default'] or 'nothing'}"[:60] in text
        assert each.meaning[:30] in text
    assert "server_cpus = 4   (preset paper: 104)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_only_those_that_are_named():
    text = settings("rounds", "clip")
    assert "rounds = 10" in text
    assert "clip = auto" in text
    assert "learning_rate" not in text


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_listed_values_can_be_given_to_set(preset):
    column = {
        name: each["paper" if preset == "paper" else "default"] for name, each in json.loads(settings("--json")).items()
    }
    numbers = ("cpus", "bandwidths", "ghz")
    usual = make_config({"preset": preset})
    given = {name: text for name, text in column.items() if name not in ("preset", "devices", *numbers)}
    assert to_settings(make_config({"preset": preset, **given})) == to_settings(usual)


def test_a_number_is_written_so_that_it_reads_back():
    assert float(setting_text(0.0512345678)) == 0.0512345678
    assert setting_text(1.0) == "1"
    assert setting_text(((24.0, 16.0), (1.5,))) == "24,16;1.5"
    assert setting_text(()) == ""
