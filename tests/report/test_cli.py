from __future__ import annotations

import builtins
import json
import sys

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main

SMALL = ["--set=clients=4", "--set=partition=iid", "--set=rounds=1", "--set=profile=insecure-test", "--set=workers=1"]


def invoke(*arguments: str):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def without_extra(monkeypatch):
    """As if `pip install sensecrypt[torch]` had been all."""
    real = builtins.__import__

    def no_vega(name, *rest):
        if name.split(".")[0] == "vl_convert":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "vl_convert", raising=False)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    monkeypatch.setattr(builtins, "__import__", no_vega)


def test_a_report_is_written_and_its_place_told(run, tmp_path):
    result = invoke("report", run)
    assert (result.exit_code, result.output) == (0, f"{run / 'report.html'}\n")
    out = tmp_path / "new" / "page.html"
    assert invoke("report", run, "--out", out).exit_code == 0
    assert out.read_text() == (run / "report.html").read_text()


def test_without_a_browser_it_says_so(run, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    result = invoke("report", run, "--open")
    assert result.exit_code == 0
    assert "no browser found" in result.stderr


def test_open_shows_it(run, monkeypatch):
    shown = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", lambda address: shown.append(address) or True)
    assert invoke("report", run, "--open").exit_code == 0
    assert shown == [(run / "report.html").as_uri()]


def test_mistakes_are_one_line_and_exit_2(tmp_path, run):
    for arguments in (["report", tmp_path / "none"], ["report", tmp_path], ["report", run, "--out", tmp_path]):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert len(result.output.splitlines()) == 1, result.output
    (tmp_path / "file").touch()
    assert invoke("watch", tmp_path / "file").exit_code == 2


def test_a_run_ends_in_a_report_unless_told_otherwise(tmp_path):
    told = invoke("run", "--out", tmp_path / "a", *SMALL)
    assert told.exit_code == 0, told.output
    assert f"report: {tmp_path / 'a' / 'report.html'}" in told.output
    assert (tmp_path / "a" / "report.html").exists()
    silent = invoke("run", "--out", tmp_path / "b", "--no-report", "--json", *SMALL)
    assert json.loads(silent.stdout)["rounds"] == 1
    assert not (tmp_path / "b" / "report.html").exists()


def test_without_the_extra_a_run_is_no_failure_and_says_how_to_get_it(tmp_path, without_extra):
    result = invoke("run", "--out", tmp_path / "a", *SMALL)
    assert result.exit_code == 0, result.output
    assert 'pip install "sensecrypt[report]"' in result.output
    assert invoke("report", tmp_path / "a").exit_code == 2
