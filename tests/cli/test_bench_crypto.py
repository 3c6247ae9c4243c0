from __future__ import annotations

import json

from tests.cli.test_app import sensecrypt


def test_all_methods_are_timed_in_one_run(tmp_path):
    arguments = ("bench", "crypto", "--repeats", "1", "--rows", "4", "--json", "--plot", str(tmp_path / "bars.png"))
    rows = {row["name"]: row for row in json.loads(sensecrypt(*arguments))["rows"]}
    assert rows["python-paillier"]["encrypt_ratio"] == 1.0
    assert {"pypaillier (Rust)", "ours: paillier-2048", "ours: ckks-8192", "ours: ring-2048"} <= rows.keys()
    # Sizes are facts, not measurements.
    assert rows["ours: paillier-2048"]["bytes_per_value"] <= 8.2
    assert rows["ours: paillier-2048-slot16"]["bytes_per_value"] <= 4.1
    assert rows["ours: ring-2048"]["bytes_per_value"] <= 13.5
    assert rows["ours: ring-2048x4"]["bytes_per_value"] <= rows["TenSEAL CKKS 8192, 60-40-40-60"]["bytes_per_value"] / 3
    assert all(row["encrypt_us"] is None or row["encrypt_us"] > 0 for row in rows.values())
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
