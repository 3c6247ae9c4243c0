"""The benchmark of blinding: every way ends in one sum, and costs are those of their own way."""

from __future__ import annotations

from sensecrypt.lab.bench import blinding


def test_each_way_has_a_row(monkeypatch):
    monkeypatch.setattr(blinding, "PROFILES", ("ring-2048", "insecure-test"))
    monkeypatch.setattr(blinding, "CLIENTS", 3)
    report = blinding.run(model="digits-mlp", repeats=1, seed=0, on_step=lambda _: None)
    assert [row["way"] for row in report["rows"]] == ["plain", "blinded", "ring-2048", "insecure-test"]
    plain, blinded, *encrypted = report["rows"]
    assert blinded["upload_bytes"] == plain["upload_bytes"]
    assert all(row["upload_bytes"] > plain["upload_bytes"] for row in encrypted)
    [shown] = blinding.shown(report)
    assert shown
