"""`sensecrypt advise`: a recommendation first, the table after it, measured for the question."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.cli.advise import show
from sensecrypt.cli.run import choose_dataset
from sensecrypt.lab.compare.advice import CANDIDATES, RECOMMENDED, Advice, _verdict
from sensecrypt.lab.compare.wording import ATTACKS, recommendation

SMALL = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 4))

def data():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(200, 8, generator=generator), torch.arange(200) % 4
"""


def row(label, seconds, verdict, *, share=1.0, strongest="sensitivity"):
    return {
        "label": label,
        "rounds": [{"seconds": seconds}],
        "verdict": verdict,
        "strongest": strongest,
        "found": 1.0 if verdict == "learns" else 0.3,
        "guessing": 0.3,
        "weakest_share": share,
        "settings": {},
    }


def rows(*verdicts):
    return [
        row(each.name, 1.0 + place, word) for place, (each, word) in enumerate(zip(CANDIDATES, verdicts, strict=True))
    ]


def test_the_fastest_safe_one_of_ours_is_recommended():
    text = recommendation(rows("learns", "guesses", "learns", "guesses", "guesses", "guesses"), RECOMMENDED, 10)
    assert text.startswith("Use the default preset: a round takes 5.0 s on the slowest device, 5.0 times")


def test_too_few_attacked_clients_give_no_recommendation():
    text = recommendation(rows("unclear", "unclear", "unclear", "unclear", "unclear", "unclear"), RECOMMENDED, 2)
    assert text.startswith("Unclear: 2 attacked clients are too few")
    text = recommendation(rows("learns", "guesses", "learns", "guesses", "learns", "learns"), RECOMMENDED, 10)
    assert text.startswith("No recommendation")


@pytest.mark.parametrize(
    ("found", "half", "verdict"),
    [(1.0, 0.0, "unclear"), (1.0, 6.0, "unclear"), (0.3, 6.0, "unclear")],
)
def test_two_seeds_never_call_an_adversary_harmless(found, half, verdict):
    prior = {"irec": 0.3, "irec_half": 2.5}
    seen = {"adversary": "zero-fill", "irec": found, "irec_half": half}
    figures = {f"{name}{part}": 0.0 for name in ("leacc", "lnacc") for part in ("", "_half")}
    assert _verdict({**seen, **figures}, prior)["verdict"] == verdict


@pytest.mark.parametrize(("found", "verdict"), [(0.9, "learns"), (0.31, "guesses"), (0.28, "guesses")])
def test_enough_seeds_give_a_verdict(found, verdict):
    prior = {"irec": 0.3, "irec_half": 0.04}
    seen = {"adversary": "zero-fill", "irec": found, "irec_half": 0.04}
    figures = {f"{name}{part}": 0.0 for name in ("leacc", "lnacc") for part in ("", "_half")}
    assert _verdict({**seen, **figures}, prior)["verdict"] == verdict


def test_the_answer_fits_80_columns_and_explains_the_attacks(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = [row(each.name, 123.4, "learns", strongest=name) for each, name in zip(CANDIDATES, ATTACKS, strict=False)]
    report = {
        "rows": shown,
        "model": "digits-mlp",
        "clients": 20,
        "devices": ["workstation", "laptop", "flagship-phone", "raspberry-pi", "old-phone"],
        "server_cpus": 4,
        "rounds": 2,
        "attacked": {"seeds": 10, "samples": 30},
    }
    show(Advice("Use the default preset.", report))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Use the default preset."
    assert max(map(len, lines)) <= 80
    for each, name in zip(CANDIDATES, ATTACKS, strict=False):
        assert any(line.startswith(each.name) and line.rstrip().endswith(ATTACKS[name]) for line in lines)


def test_a_model_of_one_s_own_is_measured(tmp_path):
    file = tmp_path / "small.py"
    file.write_text(SMALL)
    arguments = ["advise", f"{file}:build", "--seeds", "2", "--batch", "8", "--set", "devices=laptop,old-phone"]
    result = CliRunner().invoke(main, [*arguments, "--set", "workers=1", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout, parse_constant=pytest.fail)  # NaN is no JSON
    found = {each["label"]: each for each in report["rows"]}
    assert list(found) == [each.name for each in CANDIDATES]
    assert set(report["devices"]) == {"laptop", "old-phone"}
    assert found["everything (paper)"]["weakest_share"] == 1.0
    assert found["no protection"]["verdict"] != "guesses"
    assert report["recommendation"].startswith("Unclear: 2 attacked clients")


@pytest.mark.parametrize(
    ("place", "hint"),
    [("small.py", "FILE.py:FUNCTION"), ("small.py:no", "define no() there"), ("none.py:build", "cannot be read")],
)
def test_a_model_that_is_not_there(tmp_path, monkeypatch, place, hint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.py").write_text(SMALL)
    result = CliRunner().invoke(main, ["advise", place])
    assert result.exit_code == 2
    assert hint in result.output


def test_two_data_sets_are_one_too_many():
    for command in ("advise", "compare"):
        result = CliRunner().invoke(main, [command, "--set", "dataset=mnist", "--dataset", "digits"])
        message = "Error: --dataset: is digits, and --set dataset is mnist; give one of them\n"
        assert (result.exit_code, result.output) == (2, message)


@pytest.mark.parametrize(
    ("option", "named", "chosen"),
    [(None, None, "digits"), ("mnist", None, "mnist"), (None, "mnist", "mnist"), ("mnist", "mnist", "mnist")],
)
def test_the_data_set_may_be_given_either_way(option, named, chosen):
    assert choose_dataset(option, {} if named is None else {"dataset": named}) == chosen


def test_a_mistake_is_explained_in_one_line():
    for change, hint in (("cpus=0", "pass a number in"), ("nonsense=1", "not a key"), ("dataset", "KEY=VALUE")):
        result = CliRunner().invoke(main, ["advise", "--set", change])
        assert result.exit_code == 2
        assert hint in result.output
