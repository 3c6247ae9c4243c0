from __future__ import annotations

import json

from tests.cli.test_app import sensecrypt


def test_all_methods_are_timed_in_one_run():
    arguments = ("bench", "sensitivity", "--model", "mlp", "--samples", "5", "--repeats", "1", "--json")
    [measured] = json.loads(sensecrypt(*arguments))["models"]
    assert (measured["model"], measured["parameters"], measured["samples"]) == ("mlp", 50_890, 5)
    rows = {row["method"].split(",")[0]: row for row in measured["rows"] if not row["extrapolated"]}
    assert rows.keys() == {"FedML-HE", "SenseCrypt", "MaskCrypt"}
    assert all(row["seconds"] > 0 for row in measured["rows"])
    [published] = [row for row in measured["rows"] if row["extrapolated"]]
    # The paper's figure is for 200 samples, and must not stand next to one for five.
    assert published["paper_seconds"] is None
