"""The demo's screen and its page, of a small comparison; and where results go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sensecrypt.cli import places
from sensecrypt.cli.demo import show_screen
from sensecrypt.devices import DEVICES, PROCESSORS
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.compare.wording import STEPS, demo_findings
from sensecrypt.report.comparison import comparison_page

SHARES = {
    "no protection": 0.0,
    "everything (paper)": 1.0,
    "selective (paper)": 0.1,
    "blinding only": 0.0,
    "SenseCrypt": 1.0,
}
FOUND = {"no protection": "learns", "selective (paper)": "learns"}


def row(label, share):
    verdict = FOUND.get(label, "guesses")
    clients = [
        {
            "client": client,
            "device": name,
            "cpus": DEVICES[name].speed,
            "bandwidth": DEVICES[name].bandwidth,
            "encrypted_share": share / (1 + client),
            "wait": 1.0,
            **dict.fromkeys(STEPS, 0.25 * (1 + client)),
        }
        for client, name in enumerate(DEVICES)
    ]
    figures = {"accuracy_mean": 0.9, "accuracy_min": 0.8, "accuracy_max": 1.0, "encrypted_share": share}
    totals = dict.fromkeys(("device_seconds", "bytes_up", "bytes_down"), 1e6)
    return {
        **figures,
        **totals,
        "name": label,
        "label": label,
        "policy": "plaintext",
        "preset": "default",
        "settings": {"of": label},
        "straggler_share": 0.5,
        "coverage": share,
        "implementation": "ours",
        "crypto": "real",
        "device_seconds_ours": None,
        "ahead_seconds": 0.0,
        "model_sha256": [label],
        "rounds": [{"round": 0, "seconds": 7.5 if label.startswith("every") else 2.5, **figures}],
        "timeline": clients,
        "verdict": verdict,
        "strongest": "sensitivity",
        "found": 1.0 if verdict == "learns" else 0.3,
        "guessing": 0.3,
        "weakest_share": share / 5,
    }


@pytest.fixture
def report():
    rows = [row(label, share) for label, share in SHARES.items()]
    return {
        "version": 1,
        "scenario": "fleet",
        "dataset": "digits",
        "model": "digits-mlp",
        "rounds": 1,
        "clients": 5,
        "devices": list(DEVICES),
        "server_cpus": 4.0,
        "command": "sensecrypt demo",
        "attacked": {"samples": 30, "seeds": 5, "distribution": "3"},
        "findings": demo_findings(rows),
        "rows": rows,
    }


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"COLUMNS": "20"}], ids=str)
def test_the_idea_is_on_one_screen_of_80_columns(report, capsys, monkeypatch, environment):
    monkeypatch.setenv("COLUMNS", "80")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    show_screen(report)
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 34
    for name, processor in PROCESSORS.items():
        assert any(line.startswith(name) and processor in line for line in lines)
    assert "server of 4 CPUs" in text
    selective = next(line for line in lines if line.startswith("selective (paper)"))
    assert selective.split()[2:] == ["2.5", "s", "90%", "100%", "reading", "sensitivities"]
    phone = next(line for line in lines if line.startswith("old-phone"))
    assert phone.split()[4:] == ["20%", "7.5", "s", "2%", "7.5", "s", "20%", "7.5", "s"]


def test_the_screen_is_right_in_a_terminal_without_unicode(report, capsys):
    show_screen(report)
    text = capsys.readouterr().out
    assert set(text) - {"─"} <= set(map(chr, range(128)))


def test_findings_follow_the_figures(report):
    plain, everything, selective, _, ours = report["findings"]
    assert "finds 100% of the labels" in plain
    assert "all wait 7.5 s for the old phone" in everything
    assert "3 times faster" in selective
    assert "reading sensitivities finds 100%" in selective
    assert "attackers find no more labels than guessing" in ours
    report["rows"][-1] |= {"verdict": "unclear"}
    assert "too few clients" in demo_findings(report["rows"])[-1]


def test_the_page_opens_on_the_same(report, tmp_path):
    page = comparison_page(report, tmp_path)
    assert list(page.findings[:5]) == report["findings"]
    assert page.state == page.status == "finished"
    assert page.command == "sensecrypt demo"
    assert [section.name for section in page.sections[:2]] == ["attacks", "devices"]
    assert "server of 4 CPUs" in page.subtitle
    assert all(name in page.subtitle for name in DEVICES)
    table = page.tables["devices"]
    cells = {(line[0], line[1]): line[2:4] for line in table.rows}
    assert cells["old-phone", "selective (paper)"] == [0.1 / 5, 7.5]
    assert ("laptop", "no protection") not in cells
    found = {line[0]: line for line in page.tables["methods"].rows}
    assert 1.0 in found["selective (paper)"]
    json.dumps(page.to_json(), allow_nan=False)


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInput, match="holds other things"):
        places.new_folder(tmp_path, "demo")
    assert places.new_folder(tmp_path / "new", "demo") == tmp_path / "new"


def test_a_place_that_cannot_be_written_is_replaced_by_a_temporary_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert places.new_folder(None, "demo") == Path("runs/demo")
    monkeypatch.setattr("os.access", lambda *_: False)
    place = places.new_folder(None, "demo")
    assert place.parent.is_dir()
    assert "runs" not in place.parts
    assert "cannot be written" in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    (tmp_path / "other" / "runs").write_text("a file")
    assert places.new_folder(None, "demo").name == "demo"
