"""Tables of figures fit 80 columns and say what their figures are."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from sensecrypt.cli import attack, compare, run
from sensecrypt.cli.tables import show_table
from sensecrypt.config import make_config
from sensecrypt.devices import DEVICES
from sensecrypt.simulation.clock import RoundTime, Steps


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80, lines
    return lines


def test_markup_and_long_words_are_text(capsys):
    show_table("[bold]title[/]" + " word" * 30, ("a", "[b]"), [("[red]x", "1"), ("y" * 100, "2")], left=("a",))
    lines = printed(capsys)
    assert lines[0].startswith("[bold]title[/] word")
    assert any("[red]x" in line for line in lines)


def attack_row(name, share, policy):
    figures = {key: value for figure in attack.FIGURES for key, value in ((figure, 0.5), (f"{figure}_half", 0.125))}
    return {
        "attack": "labels",
        "adversary": name,
        "policy": policy,
        "preset": "default",
        "distribution": "iid",
        "share": share,
        "rest": "blinded",
        **{key: value for key, value in figures.items() if not key.startswith(("psnr", "ssim"))},
    }


def test_attacks_are_grouped_by_what_they_are_on(capsys):
    names = ("prior", "zero-fill-direction", "value-matching")
    rows = [
        attack_row(name, share, policy)
        for share, policy in ((0.0, "plaintext"), (0.03, "sensecrypt"))
        for name in names
    ]
    attack._show(rows, "mnist, lenet5, untrained; batch 30, local steps 1, seeds 0 to 29")
    lines = printed(capsys)
    assert "labels: plaintext (default), 0.0% encrypted, rest blinded, clients iid" in lines
    assert "labels: sensecrypt (default), 3.0% encrypted, rest blinded, clients iid" in lines
    assert sum("zero-fill-direction" in line for line in lines) == 2
    assert any(line.count("0.50 ±0.12") == 5 for line in lines)


def method_row(name, *, crypto="real", ours=None):
    return {
        "name": name,
        "crypto": crypto,
        "device_seconds": 3250.0,
        "device_seconds_ours": ours,
        "straggler_share": 0.47,
        "bytes_up": 247.3e6,
        "bytes_down": 247.1e6,
        "accuracy_mean": 0.914,
        "encrypted_share": 1.0,
        "ahead_seconds": 0.0,
    }


def test_a_comparison_says_whose_time_it_is_and_what_was_charged(capsys):
    report = {
        "scenario": "statistical+system",
        "dataset": "fashion-mnist",
        "rounds": 30,
        "devices": ["24 CPUs", "16 CPUs", "24 CPUs"],
        "server_cpus": 104.0,
        "rows": [
            method_row("full (paper)", crypto="calibrated", ours=120.0),
            method_row("sensecrypt (default, profile=paillier-2048)"),
        ],
    }
    compare._show(report, Path("runs/x"))
    text = " ".join(" ".join(printed(capsys)).split())
    assert "device time" in text
    assert "54.2 min" in text
    assert "full (paper)*" in text
    assert "*: calibrated: not really encrypted" in text
    assert "Devices: 24 CPUs, 16 CPUs; server of 104 CPUs." in text
    assert "at ours: full (paper) 2 min." in text


def client(number, *, left_out=None):
    played = left_out is None
    return SimpleNamespace(
        round=4,
        client=number,
        cluster=0,
        accuracy=0.9 if played else None,
        encrypted_share=0.5,
        coverage=0.75,
        bytes_up=12_000,
        left_out=left_out,
    )


def test_a_client_that_failed_is_shown_as_failed(capsys):
    config = make_config({"clients": 5, "rounds": 5})
    records = [client(0), client(1, left_out="tag does not match"), client(2)]
    steps = {
        number: Steps(train=1.5, select=0.0, encrypt=0.5, upload=0.0, wait=9.0, download=0.0, decrypt=0.0)
        for number in (0, 2)
    }
    excluded = [{"round": number, "client": 1, "reason": "late"} for number in (3, 4)]
    result = SimpleNamespace(
        records=records,
        times=lambda: [RoundTime(4, 3.0, 0.1, steps)],
        model_sha256=["a"],
        why_clusters="no structure",
        summary=lambda: {
            "accuracy": 0.9,
            "encrypted_share": 0.5,
            "bytes_up": 2e6,
            "bytes_down": 3e6,
            "device_seconds": 15.0,
            "wall_seconds": 7.0,
            "excluded": excluded,
            "why_profile": "",
            "sensitivity_noise": None,
        },
    )
    run.show(config, result, Path("runs/x"))
    lines = printed(capsys)
    assert lines[0] == "digits, policy sensecrypt: round 5 of 5"
    assert any(line.split()[1:] == ["workstation", "0", "90.0%", "50%", "75%", "2", "s", "12"] for line in lines)
    assert any("laptop" in line and "FAILED" in line for line in lines)
    assert "Client 1 FAILED in this round: tag does not match." in lines
    assert any(line.startswith("FAILED in all rounds: 2 uploads") for line in lines)
    assert list(DEVICES)[2] in "".join(lines)


def test_an_unknown_accuracy_is_unknown():
    assert run._percent(math.nan) == run._percent(None) == "unknown"
