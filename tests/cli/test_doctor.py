"""`sensecrypt doctor` and `sensecrypt completion`."""

from __future__ import annotations

import importlib.util
import json
import subprocess

import pytest
from click.testing import CliRunner

from sensecrypt.cli import doctor, main
from sensecrypt.extras import EXTRAS


def look(*arguments: str):
    return CliRunner().invoke(main, ["doctor", *arguments])


def findings() -> dict[str, dict]:
    told = look("--json")
    return {each["what"]: each for each in json.loads(told.output)["findings"]}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(doctor.check_crypto, "__defaults__", (0.2,))


def test_everything_is_told_and_the_cryptography_is_tried():
    told = findings()
    assert told["cryptography"]["verdict"] == "ok"
    assert "sums right" in told["cryptography"]["found"]
    assert told["data digits"]["verdict"] == "ok"
    assert {f"extra {name}" for name in EXTRAS} <= told.keys()


def test_a_missing_extra_says_how_to_get_it(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tenseal" else find(name))
    assert findings()["extra ckks"]["todo"] == 'pip install "sensecrypt[ckks]"'
    shown = look()
    assert shown.exit_code == 0
    assert 'pip install "sensecrypt[ckks]"' in shown.output


def test_missing_data_is_told_with_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("SENSECRYPT_DATA", str(tmp_path))
    told = findings()["data mnist"]
    assert told["verdict"] == "missing"
    assert str(tmp_path) in told["found"]
    assert "SENSECRYPT_DATA" in told["todo"]


def test_a_machine_that_adds_wrongly_is_found_out(monkeypatch):
    from sensecrypt import PublicKey

    monkeypatch.setattr(PublicKey, "add", lambda self, one, other: one)
    told = look()
    assert told.exit_code == 1
    assert "a sum came out wrong" in told.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell):
    told = CliRunner().invoke(main, ["completion", shell])
    assert told.exit_code == 0
    assert "_SENSECRYPT_COMPLETE" in told.output


def test_bash_takes_the_script():
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    subprocess.run(["/bin/bash", "-n"], input=script, text=True, check=True)


def test_another_shell_is_a_user_s_mistake():
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2
