from __future__ import annotations

import json

import pytest

from tests.cli.test_app import sensecrypt


@pytest.mark.slow
def test_both_sides_are_measured_in_one_run():
    options = ("--parameters", "500", "--clients", "5", "--repeats", "1", "--workers", "1", "--json")
    report = json.loads(sensecrypt("bench", "dkms", *options))
    assert (report["parameters"], report["ciphertexts"], report["clients"]) == (500, 8, 5)
    assert min(report["service_seconds"], report["bare_seconds"]) > 0
    assert report["fetch_p99_seconds"] >= report["fetch_p50_seconds"] > 0
    assert report["tag_p99_seconds"] >= report["tag_p50_seconds"] > 0
    assert report["memory_megabytes"] > 10
    assert report["fetch_bytes"] == 2000
