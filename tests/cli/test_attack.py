"""`sensecrypt attack` on embedded data: what is found, what is not, and mistakes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main

QUICK = ["--dataset", "digits", "--model", "digits-mlp", "--batch", "12", "--seeds", "4"]
FIGURES = ("leacc", "lnacc", "irec")


def run(*arguments):
    return CliRunner().invoke(main, ["attack", *arguments])


def rows_of(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["rows"]


@pytest.fixture(scope="module")
def rows():
    return rows_of(*QUICK, "--share", "0.05,1", "--distribution", "iid,2", "--policy", "sensecrypt@paper,sensecrypt")


class TestSynthetic:
    def test_every_row_has_its_figures_and_their_half_widths(self, rows):
        for row in rows:
            assert {"attack", "adversary", "distribution", "share"} <= row.keys()
            assert row["mi"] >= 0
            assert (row["mi"] == 0) == (row["share"] == 1.0)
            for figure in FIGURES:
                assert 0 <= row[figure] <= 1
                assert row[f"{figure}_half"] >= 0

    def test_prior_and_plaintext_are_in_every_table(self, rows):
        for distribution in ("iid", "2"):
            found = {(row["policy"], row["adversary"]) for row in rows if row["distribution"] == distribution}
            assert ("plaintext", "prior") in found
            assert ("plaintext", "zero-fill") in found

    def test_everything_encrypted_leaves_the_prior_to_everybody(self, rows):
        whole = [row for row in rows if row["preset"] == "default" and row["share"] == 1.0]
        assert {row["adversary"] for row in whole} >= {"zero-fill", "completion", "prototype", "mask-only", "collusion"}
        for row in whole:
            prior = next(
                other
                for other in rows
                if (other["adversary"], other["policy"], other["distribution"])
                == ("prior", "plaintext", row["distribution"])
            )
            assert [row[figure] for figure in FIGURES] == [prior[figure] for figure in FIGURES]

    def test_the_papers_preset_gives_labels_away_however_much_it_encrypts(self, rows):
        given = [row for row in rows if row["adversary"] == "sensitivity"]
        assert given
        assert all(row["preset"] == "paper" for row in given)
        assert max(row["lnacc"] for row in given if row["share"] == 1.0) > 0.8

    def test_without_encryption_labels_are_read(self, rows):
        plain = [row for row in rows if row["policy"] == "plaintext" and row["adversary"] == "zero-fill"]
        assert all(row["lnacc"] > 0.8 for row in plain)

    def test_the_table_says_what_it_is_of_and_what_its_figures_mean(self):
        output = run(*QUICK, "--seeds", "2", "--seed", "3", "--attacks", "zero-fill", "--policy", "full").output
        title = output.splitlines()[0].strip()
        assert title == "digits, digits-mlp, untrained; batch 12, local steps 1, seeds 3 to 4"
        for figure in ("leacc", "lnacc", "irec", "distance", "top1"):
            assert f"\n{figure}: " in output
        assert "psnr" not in output
        assert "an attack that finds no more has learnt nothing" in " ".join(output.split())

    def test_images_and_pictures(self, tmp_path):
        picture = tmp_path / "recovered.png"
        found = rows_of(
            *("--dataset", "digits", "--model", "digits-mlp", "--batch", "1", "--seeds", "2"),
            *("--share", "0.03", "--policy", "high_sensitivity", "--attacks", "dlg", "--effort", "20"),
            *("--pictures", str(picture)),
        )
        assert {(row["policy"], row["adversary"]) for row in found} == {
            ("plaintext", "prior"),
            ("plaintext", "mask-aware"),
            ("high_sensitivity", "zero-fill"),
            ("high_sensitivity", "mask-aware"),
        }
        assert all("psnr_half" in row for row in found)
        assert picture.read_bytes().startswith(b"\x89PNG")

    def test_all_is_the_ladder_and_every_image_attack(self):
        found = rows_of(
            *("--dataset", "digits", "--model", "digits-mlp", "--batch", "2", "--seeds", "1", "--share", "1"),
            *("--policy", "sensecrypt@paper,sensecrypt", "--attacks", "all", "--effort", "2"),
        )
        attacks = {(row["attack"], row["adversary"]) for row in found if row["policy"] == "sensecrypt"}
        for name in ("dlg", "idlg", "inverting"):
            assert {(name, fill) for fill in ("zero-fill", "mask-aware", "sensitivity")} <= attacks
        assert {("labels", "prior"), ("labels", "prototype"), ("labels", "collusion")} <= attacks
        on_images = [row for row in found if row["attack"] != "labels"]
        assert [row["policy"] for row in on_images if row["adversary"] == "prior"] == ["plaintext"]
        assert {row["preset"] for row in on_images if row["adversary"] == "sensitivity"} == {"paper"}

    def test_what_all_leaves_out_is_said(self):
        result = run(*QUICK, "--seeds", "1", "--attacks", "all", "--policy", "full", "--share", "1", "--json")
        assert result.exit_code == 0, result.output
        assert {row["attack"] for row in json.loads(result.stdout)["rows"]} == {"labels"}
        assert "left out: dlg, idlg, inverting, which are for batches of up to 8 images, not 12" in result.stderr

    def test_a_table_for_people(self):
        result = run(*QUICK, "--seeds", "2", "--attacks", "zero-fill", "--policy", "full", "--share", "1")
        assert result.exit_code == 0, result.output
        assert "zero-fill" in result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("attacked") / "run"
    changes = [
        "rounds=1",
        "clients=6",
        "profile=insecure-test",
        "messages=keep",
        "policy=plaintext",
        "workers=1",
        "partition=iid",
    ]
    settings = [part for change in changes for part in ("--set", change)]
    result = CliRunner().invoke(main, ["run", "--out", str(out), *settings])
    assert result.exit_code == 0, result.output
    return out


class TestRun:
    def test_a_recorded_run(self, folder):
        rows = rows_of("--run", str(folder), "--round", "0", "--client", "3", "--adversary", "aggregator")
        assert {row["adversary"] for row in rows} >= {"prior", "zero-fill", "prototype"}
        assert all(row["attributed"] == 1.0 for row in rows)
        kept = folder / "attack-round-0-client-3-aggregator.json"  # for the run's report
        assert json.loads(kept.read_text())["rows"] == rows

    def test_the_table_of_a_run(self, folder):
        output = run("--run", str(folder), "--client", "3").output
        assert output.startswith("digits, digits-mlp; client 3 of ")
        assert "in round 0, seen as aggregator" in " ".join(output.split())
        assert "\nirec: share of the client's labels" in output

    def test_a_round_that_was_not_played(self, folder):
        result = run("--run", str(folder), "--round", "7")
        assert result.exit_code == 2
        assert "round 7" in result.output

    def test_no_run(self, tmp_path):
        result = run("--run", str(tmp_path))
        assert result.exit_code == 2
        assert "holds no run; check the path, or start a run there first" in result.output


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--share", "1.5"], "--share"),
        (["--share", "much"], "0.031"),
        (["--policy", "nonsense"], "choose one of"),
        (["--attacks", "nonsense"], "choose labels"),
        (["--distribution", "40", "--batch", "12"], "from 1 to"),
        (["--distribution", "11"], "distribution"),
        (["--model", "nonsense"], "no model"),
        (["--attacks", "dlg", "--batch", "30"], "batch"),
        (["--policy", "maskcrypt+ratio=0.9"], "--share"),
        (["--attacks", "dlg", "--batch", "1", "--steps", "3"], "one step"),
        (["--pictures", "recovered.png"], "image attacks"),
    ],
    ids=str,
)
def test_a_mistake_is_told_in_one_line(arguments, hint):
    result = run("--dataset", "digits", "--model", "digits-mlp", "--batch", "12", "--seeds", "1", *arguments)
    assert result.exit_code == 2
    assert hint in result.output
    assert "Traceback" not in result.output
