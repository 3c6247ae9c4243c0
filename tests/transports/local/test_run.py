"""Whole runs on one machine, small keys: the same models whatever is encrypted, and whatever goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.metrics import adjusted_rand_score

from sensecrypt.client import scoring, update
from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.records import ClientRecord, Refusal, clients_of, servers_of, to_fields
from sensecrypt.report.folder import read_folder
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

SMALL = {
    "clients": 8,
    "partition": "categories:2",
    "rounds": 3,
    "profile": "insecure-test",
    "order_refresh": 2,
    "workers": 1,
}


def play(tmp_path, name="run", intercept=None, **settings):
    config = make_config({**SMALL, **settings})
    return run_local(config, RunFolder(tmp_path / name), intercept=intercept)


def models(result) -> list[bytes]:
    return [vector.tobytes() for vector in result.vectors]


BY_SERVER = {"weighting": "server", "profile": "paillier-2048-slot64", "rest": "plain"}


@pytest.fixture(scope="module")
def weighted_by_server(tmp_path_factory):
    return play(tmp_path_factory.mktemp("server"), **{**BY_SERVER, "policy": "plaintext"})


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "full"},
        {"policy": "maskcrypt", "layout": "blocks", "ratio": 0.2},
        {"layout": "blocks"},
        {"layout": "prefix"},
        {"layout": "prefix", "key_mode": "shared-key"},
    ],
    ids=str,
)
def test_the_models_are_the_same_to_the_byte_where_the_server_weighs(tmp_path, weighted_by_server, reference, settings):
    result = play(tmp_path, **{**BY_SERVER, **settings})
    if settings.get("policy") != "maskcrypt":
        assert any(record.multiplied_blocks for record in servers_of(result.log))
    assert models(result) == models(weighted_by_server)
    for ours, theirs in zip(result.vectors, reference.vectors, strict=True):
        assert np.abs(ours - theirs).max() < 1e-4  # rounding, through three rounds of training


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return play(tmp_path_factory.mktemp("reference"), policy="plaintext")


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "full"},
        {"layout": "prefix"},
        {"layout": "prefix", "objective": "balance"},
        {"layout": "blocks"},
        {"key_mode": "shared-key"},
        {"sensitivities": "clear"},
        {"workers": 4},
        {"profile": "paillier-2048"},
        {"profile": "ckks-8192", "layout": "blocks"},
        {"profile": "ring-2048"},
        {"profile": "ring-2048", "layout": "blocks", "policy": "random", "ratio": 0.5},
        {"profile": "ring-2048x4", "rest": "plain"},
        {"profile": "ring-2048x16", "crypto": "calibrated"},
        {"profile": "auto"},
    ],
    ids=str,
)
def test_the_models_are_the_same_to_the_byte(tmp_path, reference, settings):
    result = play(tmp_path, **settings)
    assert result.labels == reference.labels
    assert models(result) == models(reference)


@pytest.mark.slow
def test_the_paper_preset_gives_the_default_presets_models(tmp_path):
    settings = {"clients": 4, "partition": "iid", "rounds": 1, "workers": 2}
    paper = run_local(make_config({**settings, "preset": "paper"}), RunFolder(tmp_path / "paper"))
    default = run_local(make_config({**settings, "uploads": "weights"}), RunFolder(tmp_path / "default"))
    for ours, theirs in zip(paper.vectors, default.vectors, strict=True):  # who weighs decides where is rounded
        assert np.abs(ours - theirs).max() < 1e-6
    plain_settings = {**settings, **BY_SERVER, "policy": "plaintext", "uploads": "weights"}
    plain = run_local(make_config(plain_settings), RunFolder(tmp_path / "plain"))
    assert models(paper) == models(plain)
    assert 0 < paper.summary()["encrypted_share"] < 1


def test_clusters_follow_the_data(tmp_path):
    four = play(tmp_path, "four", clients=20, partition="categories:4", rounds=1, policy="plaintext")
    assert adjusted_rand_score(np.repeat(np.arange(4), 5), four.labels) == 1.0
    assert set(play(tmp_path, "one", clients=10, partition="iid", rounds=1, policy="plaintext").labels) == {0}


def test_a_run_learns_and_its_folder_tells_everything(tmp_path, reference):
    result = play(tmp_path, rounds=6)
    first = [record.accuracy for record in result.records if record.round == 0]
    assert np.mean(result.accuracy) > np.mean(first)
    assert len(result.records) == 6 * 8
    for record in result.records:
        assert {
            "train_seconds",
            "sensitivity_seconds",
            "select_seconds",
            "encrypt_seconds",
            "bytes_up",
            "bytes_down",
        } <= to_fields(record).keys()
        assert 0 <= record.encrypted_share <= 1
        assert record.mi <= 2.0 or not record.feasible
    saved = load_file(tmp_path / "run" / "model-0.safetensors")
    assert np.concatenate([tensor.ravel() for tensor in saved.values()]).size == result.vectors[0].size
    summary = result.summary()
    assert summary["rounds"] == 6
    assert summary["clusters"] == reference.labels
    assert len(summary["model_sha256"]) == 2


def test_every_encrypted_block_has_three_contributors_by_the_budgets(tmp_path):
    result = play(tmp_path, objective="protect")
    for cluster in (0, 1):
        blocks = sorted(
            record.encrypted_blocks for record in result.records if record.cluster == cluster and record.round == 0
        )
        assert blocks[-1] == blocks[-2] == blocks[-3]


def test_noise_is_told_with_what_it_is_worth(tmp_path):
    noisy = play(tmp_path, rounds=1, sensitivity_epsilon=1.0, sensitivity_clip=0.1)
    told = noisy.summary()["sensitivity_noise"]
    assert (told["protects"], told["epsilon"]) == ("vector", 1.0)
    assert told["local_epsilon"] == pytest.approx(1.1, abs=0.05)
    setup = [record for record in noisy.log if record.round == -1 and isinstance(record, ClientRecord)]
    assert all(record.noise == "vector" for record in setup)
    assert set(noisy.labels) == {0}  # noise as written leaves nothing to cluster by
    json.dumps(noisy.summary(), allow_nan=False)


def test_noise_of_a_sample_and_training_before_clustering_run_too(tmp_path, reference):
    few = {"sensitivity_epsilon": 1.0, "sensitivity_clip": 1e-4, "sensitivity_noise": "sample", "rounds": 1}
    assert play(tmp_path, "sample", **few).summary()["sensitivity_noise"]["protects"] == "sample"
    trained = play(tmp_path, "trained", clustering_gradient="trained", gradient="start")
    assert models(trained) == models(reference)
    setup = [record for record in trained.log if record.round == -1 and isinstance(record, ClientRecord)]
    assert all(record.train_seconds > 0 for record in setup)
    assert trained.times()[0].clients[0].train > 0


@pytest.mark.parametrize("settings", [{}, {"clustering": "none", "partition": "iid"}], ids=["clusters", "order"])
def test_measured_bandwidths_make_the_budgets(tmp_path, settings):
    common = {"rounds": 1, "budget": "paper", "min_contributors": 1, "cpus": "8", "bandwidths": "40,0.001", **settings}
    result = play(tmp_path, bandwidth="measured", **common)
    setup = {record.client: record for record in result.log if record.round == -1 and isinstance(record, ClientRecord)}
    for record in result.played:
        members = [each for each in result.played if each.cluster == record.cluster]
        best = max(setup[each.client].measured_bandwidth for each in members)
        assert record.budget == pytest.approx(setup[record.client].measured_bandwidth / best)
        if record.client % 2:  # a slow line takes nearly all of the delay
            assert setup[record.client].measured_bandwidth == pytest.approx(0.001, rel=0.05)
    assert not any(
        record.measured_bandwidth is not None for record in clients_of(play(tmp_path, "other", **common).log)
    )


def test_without_an_answer_before_the_first_round_no_bandwidth_is_measured(tmp_path):
    with pytest.raises(InvalidInput, match="bandwidth: is measured by an answer before the first round"):
        play(tmp_path, bandwidth="measured", clustering="none", layout="blocks")
    assert not (tmp_path / "run").exists()


def test_the_clock_of_processors_changes_time_and_budgets(tmp_path):
    common = {"rounds": 1, "budget": "paper", "min_contributors": 1, "cpus": "8", "bandwidths": "40"}
    slow, fast = (play(tmp_path, name, ghz=ghz, **common) for name, ghz in (("slow", "0.001"), ("fast", "1")))
    assert slow.summary()["device_seconds"] > 20 * fast.summary()["device_seconds"]
    mixed = play(tmp_path, "mixed", ghz="1,0.5", **common)
    assert {record.client % 2: record.budget for record in mixed.played} == {0: 1.0, 1: 0.5}


class TestFaults:
    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: None,
            lambda data: b"",
            lambda data: data[:-5],
            lambda data: b"\xff" * len(data),
        ],
        ids=["lost", "empty", "truncated", "garbage"],
    )
    def test_a_bad_upload_is_left_out_with_a_reason_and_the_round_completes(self, tmp_path, damage):
        def intercept(client, number, data):
            return damage(data) if (client, number) == (3, 1) else data

        result = play(tmp_path, intercept=intercept)
        left_out = [record for record in result.records if record.left_out is not None]
        assert [(record.client, record.round) for record in left_out] == [(3, 1)]
        assert left_out[0].left_out

    def test_a_replay_and_another_clients_upload_are_left_out(self, tmp_path):
        sent = {}

        def intercept(client, number, data):
            sent[client, number] = data
            return {(1, 1): sent.get((1, 0)), (2, 2): sent.get((1, 2))}.get((client, number), data)

        result = play(tmp_path, intercept=intercept)
        reasons = {(r.client, r.round): r.left_out for r in result.records if r.left_out is not None}
        assert reasons.keys() == {(1, 1), (2, 2)}
        assert "round" in reasons[1, 1]
        assert "client" in reasons[2, 2]

    def test_an_altered_upload_makes_the_key_server_refuse_and_the_run_stop_resumably(self, tmp_path, reference):
        settings = {"layout": "blocks", "budget": "paper", "rest": "plain", "min_contributors": 4}  # all of a cluster
        with pytest.raises(SenseCryptError, match="does not match the tags"):
            play(tmp_path, intercept=self.alter, **settings)
        folder = RunFolder(tmp_path / "run")
        assert models(run_local(folder.read_config(), folder, resume=True)) == models(reference)

    def test_a_client_whose_upload_is_altered_is_found_where_the_others_are_enough(self, tmp_path):
        result = play(tmp_path, intercept=self.alter, layout="blocks", budget="paper", rest="plain")
        left_out = {(record.client, record.round) for record in result.records if record.left_out is not None}
        assert left_out == {(4, 1)}
        assert [(record.client, record.round) for record in result.records if record.client == 4] == [
            (4, 0),
            (4, 1),
        ]
        assert result.labels[4] == -1
        assert result.summary()["accuracy_per_client"][4] is None
        assert np.mean([each for each in result.accuracy if not np.isnan(each)]) == result.summary()["accuracy"]
        assert [time.number for time in result.times()] == [-1, 0, 1, 2]
        [refusal] = [record for record in RunFolder(tmp_path / "run").records() if isinstance(record, Refusal)]
        assert refusal.refused_client == 4
        seen = read_folder(tmp_path / "run")
        assert not seen.fleet
        assert any("client 4 is excluded" in line for line in seen.absences)

    def test_a_client_that_was_found_stays_out_when_the_run_is_resumed(self, tmp_path):
        settings = {"layout": "blocks", "budget": "paper", "rest": "plain"}
        whole = play(tmp_path, "whole", intercept=self.alter, **settings)
        folder = RunFolder(tmp_path / "run")

        class Stop(Exception):
            pass

        def stop(number, *_):
            if number == 1:
                raise Stop

        with pytest.raises(Stop):
            run_local(make_config({**SMALL, **settings}), folder, intercept=self.alter, on_round=stop)
        resumed = run_local(folder.read_config(), folder, resume=True)
        assert resumed.labels == whole.labels
        assert models(resumed) == models(whole)

    @staticmethod
    def alter(client, number, data):
        if (client, number) != (4, 1):  # a slow device, which sends a part plain
            return data
        header, tensors = parse_any(data, "upload")
        tensors["plain"][0] += 1
        return serialize("upload", header, tensors)

    def test_below_the_quorum_the_round_is_retried_then_the_run_stops_resumably(self, tmp_path, reference):
        tries = []

        def intercept(client, number, data):
            if number == 1 and client < 4:
                tries.append(client)
                return None
            return data

        with pytest.raises(SenseCryptError, match=r"0 contributor\(s\), but at least 3 .*fix it and --resume"):
            play(tmp_path, intercept=intercept)
        assert sorted(tries) == [client for client in range(4) for _ in range(3)]
        folder = RunFolder(tmp_path / "run")
        assert models(run_local(folder.read_config(), folder, resume=True)) == models(reference)

    def test_a_client_that_diverges_sends_a_zero_update(self, tmp_path, monkeypatch):
        honest = scoring.train_on

        def diverge(model, data, recipe, **settings):
            vector = honest(model, data, recipe, **settings)
            return np.full_like(vector, np.nan) if diverge.calls.pop(0) == 2 else vector

        diverge.calls = list(range(8)) + [0] * 100
        monkeypatch.setattr(scoring, "train_on", diverge)
        result = play(tmp_path)
        assert not [record for record in result.records if record.left_out is not None]
        [record] = [record for record in result.records if record.failure is not None]
        assert (record.client, record.round) == (2, 0)
        assert "finite" in record.failure

    def test_a_client_whose_process_dies_is_left_out(self, tmp_path, monkeypatch):
        honest, here = update._protected, os.getpid()

        def die(context, task, *more):
            if task.client == 5 and task.round.number == 1 and os.getpid() != here:
                os._exit(1)
            return honest(context, task, *more)

        monkeypatch.setattr(update, "_protected", die)
        result = play(tmp_path, workers=2)
        [record] = [record for record in result.records if record.left_out is not None]
        assert (record.client, record.round, record.left_out) == (5, 1, "the client's process died (exit code 1)")


@pytest.mark.parametrize("delay", [0.1, 0.4, 0.8])
def test_a_killed_run_resumes_to_the_same_models(tmp_path, delay):
    settings = {**SMALL, "rounds": 12}
    arguments = [f"--set={key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-m", "sensecrypt", "run", "--out", str(tmp_path / "killed"), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records = tmp_path / "killed" / "records.jsonl"
    deadline = time.monotonic() + 120
    while not records.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = RunFolder(tmp_path / "killed")
    resumed = run_local(folder.read_config(), folder, resume=True)
    assert models(resumed) == models(play(tmp_path, "whole", policy="plaintext", rounds=12))
    assert [record.round for record in resumed.records] == sorted(record.round for record in resumed.records)
    assert len(resumed.records) == 12 * 8


class TestFolder:
    def test_a_folder_holds_one_run(self, tmp_path):
        play(tmp_path, rounds=1)
        with pytest.raises(InvalidInput, match="holds a run already"):
            play(tmp_path)

    def test_a_folder_of_another_version_or_none(self, tmp_path):
        with pytest.raises(InvalidInput, match="holds no run"):
            RunFolder(tmp_path / "nothing").read_config()
        (tmp_path / "run.json").write_text('{"version": 99}')
        with pytest.raises(InvalidInput, match="version 99"):
            RunFolder(tmp_path).read_config()

    def test_a_damaged_checkpoint_is_a_clear_error(self, tmp_path):
        play(tmp_path, rounds=1)
        (tmp_path / "run" / "checkpoint.safetensors").write_bytes(b"damaged")
        folder = RunFolder(tmp_path / "run")
        with pytest.raises(InvalidInput, match="cannot be used"):
            run_local(folder.read_config(), folder, resume=True)

    def test_a_full_disk_leaves_the_last_checkpoint(self, tmp_path, monkeypatch):
        play(tmp_path, rounds=1)
        before = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()

        def fail(_handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(SenseCryptError, match="No space left"):
            RunFolder(tmp_path / "run").save_checkpoint({"round": 9}, {})
        assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == before
        assert not list((tmp_path / "run").glob(".*part"))
