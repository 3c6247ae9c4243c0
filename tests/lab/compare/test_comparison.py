"""Comparisons on embedded data: one training for all, one row each, everything that can be wrong told at once."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.compare.comparison import compare
from sensecrypt.lab.compare.scenarios import SCENARIOS, scenario_settings
from sensecrypt.methods import parse_methods

ROW = {
    "policy",
    "preset",
    "device_seconds",
    "straggler_share",
    "bytes_up",
    "bytes_down",
    "accuracy_mean",
    "accuracy_min",
    "accuracy_max",
    "encrypted_share",
    "coverage",
    "crypto",
}
QUICK = ["--set", "local_epochs=1", "--set", "workers=1", "--rounds", "2"]


def run(*arguments):
    return CliRunner().invoke(main, ["compare", *arguments])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    fine = "profile=insecure-test"  # whose blocks are short
    policies = "plaintext,full,maskcrypt@paper,sensecrypt@paper,sensecrypt,fedml_he+" + fine
    policies += ",random+ratio=0.5+" + fine
    result = run("--scenario", "cost-efficiency", "--policies", policies, *QUICK, "--out", str(out), "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), out


def rows_of(report):
    return {row["name"]: row for row in report[0]["rows"]}


class TestReport:
    def test_one_row_a_method_in_the_order_asked_for_with_every_figure(self, report):
        rows = report[0]["rows"]
        assert [row["policy"] for row in rows] == [
            "plaintext",
            "full",
            "maskcrypt",
            "sensecrypt",
            "sensecrypt",
            "fedml_he",
            "random",
        ]
        for row in rows:
            assert row.keys() >= ROW
            assert row["device_seconds"] > 0
            assert 0 <= row["straggler_share"] < 1
            assert row["accuracy_min"] <= row["accuracy_mean"] <= row["accuracy_max"]
            assert len(row["rounds"]) == 2
            assert len(row["timeline"]) == 5

    def test_methods_without_clusters_train_the_same_model_to_the_byte(self, report):
        rows = rows_of(report)
        shas = {
            (row["preset"], tuple(row["model_sha256"])) for row in rows.values() if row["clusters"] == 1
        }  # with preset paper the server weighs, and other numbers are rounded
        assert sorted(preset for preset, _ in shas) == ["default", "paper"]
        assert rows["sensecrypt (default)"]["clusters"] == 1  # the data is IID

    def test_the_baseline_is_python_paillier_and_costs_most(self, report):
        rows = rows_of(report)
        full, plain = rows["full (paper)"], rows["plaintext (default)"]
        assert full["implementation"] == "python-paillier"
        assert full["crypto"] == "calibrated"
        assert (full["encrypted_share"], plain["encrypted_share"]) == (1.0, 0.0)
        assert full["device_seconds"] > full["device_seconds_ours"] > plain["device_seconds"]
        assert full["device_seconds"] == max(row["device_seconds"] for row in rows.values())
        assert full["bytes_up"] > 50 * plain["bytes_up"]

    def test_the_papers_fairness_rule(self, report):
        rows = rows_of(report)
        union = rows["sensecrypt (paper)"]["union_share"]
        assert rows["maskcrypt (paper)"]["encrypted_share"] == pytest.approx(union, abs=0.001)
        assert rows["random (default, ratio=0.5, profile=insecure-test)"]["encrypted_share"] == pytest.approx(
            0.5, abs=0.02
        )

    def test_training_is_charged_alike(self, report):
        rows = rows_of(report)
        trained = [[client["train"] for client in row["timeline"]] for row in rows.values()]
        assert all(each == trained[0] for each in trained)

    def test_the_folder_has_the_report_the_plots_and_every_run(self, report):
        data, out = report
        assert json.loads((out / "compare.json").read_text()) == data
        assert len(list(out.glob("*.png"))) == 5
        assert len(list(out.glob("*/run.json"))) == len(data["rows"])
        assert not (out / "training").exists()

    def test_a_folder_with_a_comparison_is_not_overwritten_but_can_be_gone_on_with(self, report):
        data, out = report
        again = run("--scenario", "cost-efficiency", "--policies", "plaintext", *QUICK, "--out", str(out))
        assert again.exit_code == 2
        assert "--resume" in again.output
        other = run(
            *("--scenario", "cost-efficiency", "--policies", "plaintext", "--rounds", "3", "--resume"),
            *("--out", str(out)),
        )
        assert other.exit_code == 2
        assert "other settings" in other.output
        assert json.loads((out / "compare.json").read_text()) == data


def test_an_interrupted_comparison_goes_on(tmp_path):
    methods = parse_methods("plaintext,random+profile=insecure-test", "default")
    settings = scenario_settings("cost-efficiency", "digits", {"local_epochs": 1, "rounds": 2, "workers": 1})

    class Stop(Exception):
        pass

    def stop(name, done, rounds):
        if name.startswith("random") and done == 1:
            raise Stop

    with pytest.raises(Stop):
        compare("cost-efficiency", methods, settings, tmp_path / "out", on_step=stop)
    report = compare("cost-efficiency", methods, settings, tmp_path / "out", resume=True)
    whole = compare("cost-efficiency", methods, settings, tmp_path / "whole")
    for ours, theirs in zip(report["rows"], whole["rows"], strict=True):
        assert ours["model_sha256"] == theirs["model_sha256"]
        assert ours["bytes_up"] == theirs["bytes_up"]


class TestScenarios:
    def test_every_scenario_makes_a_configuration(self):
        for name, scenario in SCENARIOS.items():
            config = make_config(scenario_settings(name, "digits", {}))
            assert len(config.devices(0)) == scenario.clients

    def test_devices_of_the_paper(self):
        config = make_config(scenario_settings("statistical+system", "digits", {}))
        first, last = config.devices(0)[:5], config.devices(0)[15:]
        assert first == last
        assert [(device.cpus, device.bandwidth) for device in first] == [
            (24, 50),
            (16, 45),
            (12, 40),
            (10, 35),
            (8, 30),
        ]
        rising = make_config(scenario_settings("cost-efficiency", "digits", {}))
        assert [device.cpus for device in rising.devices(0)] == [32, 30, 28, 26, 24]
        assert [device.cpus for device in rising.devices(3)] == [32, 16, 12, 10, 8]
        assert rising.devices(9) == rising.devices(3)

    def test_the_papers_constants_follow_the_data_set(self):
        assert (scenario_settings("system", "cifar-10", {})["B"], scenario_settings("system", "cifar-10", {})["C"]) == (
            2.0,
            0.5,
        )
        assert scenario_settings("system", "cifar-10", {"B": 1.0})["B"] == 1.0

    @pytest.mark.parametrize(("clients", "works"), [("20", True), ("40", True), ("30", False), ("many", False)])
    def test_categories_and_kinds_of_devices_must_come_out_even(self, clients, works):
        if works:
            assert scenario_settings("system", "digits", {"clients": clients})["clients"] == clients
        else:
            with pytest.raises(InvalidInput, match="multiple of 20"):
                scenario_settings("system", "digits", {"clients": clients})


class TestMethods:
    def test_policies_presets_and_settings(self):
        found = parse_methods("plaintext, full ,sensecrypt@paper,sensecrypt+grace=0.5+profile=ring-2048x4", "default")
        assert [(each.policy, each.preset) for each in found] == [
            ("plaintext", "default"),
            ("full", "paper"),
            ("sensecrypt", "paper"),
            ("sensecrypt", "default"),
        ]
        assert found[3].settings == {"grace": "0.5", "profile": "ring-2048x4"}
        assert found[3].name == "sensecrypt (default, grace=0.5, profile=ring-2048x4)"

    @pytest.mark.parametrize(
        ("arguments", "hint"),
        [
            (["--policies", "nonsense"], "choose one of plaintext"),
            (["--policies", "plaintext@nonsense"], "choose one of default, paper"),
            (["--policies", "plaintext,plaintext"], "each only once"),
            (["--policies", ""], "at least one"),
            (["--policies", "random+half"], "key=value"),
            (["--policies", "random+rati=0.5"], "did you mean 'ratio'"),
            (["--policies", "sensecrypt@paper+key_mode=dkms+profile=ckks-8192"], "paillier-2048-scalar"),
            (["--policies", "sensecrypt+profile=ckks-8192+randomness=ahead"], "fresh"),
            (["--set", "clients=7"], "multiple of 20"),
            (["--set", "cpus=4,0"], "cpus: is 0; pass a number in"),
            (["--set", "bandwidths=0"], "bandwidths: is 0; pass a number in"),
            (["--rounds", "0"], "rounds"),
            (["--set", "nonsense"], "KEY=VALUE"),
            (["--set", "policy=full"], "--policies"),
            (["--set", "crypto=real"], "--crypto"),
            (["--resume"], "holds no comparison; check the path, or start one without --resume"),
        ],
        ids=str,
    )
    def test_a_mistake_is_told_in_one_line_and_leaves_nothing(self, tmp_path, arguments, hint):
        result = run(*arguments, "--out", str(tmp_path / "out"))
        assert result.exit_code == 2
        assert hint in result.output
        assert "Traceback" not in result.output
        assert not (tmp_path / "out").exists()
