from __future__ import annotations

from sensecrypt.lab.bench.measure import Times, peak_mb
from sensecrypt.lab.bench.table import described, milliseconds, ratio


def row(name, seconds, ari=None):
    return {"name": name, "seconds": seconds, "ari": ari}


def test_columns_format_scale_and_leave_out_what_there_is_not():
    columns = [
        ("method", "name"),
        ("ms", milliseconds("seconds")),
        ratio("seconds", 0.5),
        ("ARI", "ari:.3f"),
        ("twice", lambda row: f"{2 * row['seconds']:.1f}"),
    ]
    table = described("Two", columns, [row("a", 0.25), row("b", 1.5, 0.75)])
    assert table.headings == ["method", "ms", "ratio", "ARI", "twice"]
    assert table.cells == [["a", "250", "0.50", "", "0.5"], ["b", "1,500", "3.00", "0.750", "3.0"]]


def test_medians_are_of_each_name_and_results_come_back():
    ticks = iter([0.0, 1.0, 10.0, 14.0, 20.0, 22.0, 30.0, 37.0])
    times = Times(lambda: next(ticks))
    assert [times.of("a", lambda: "result") for _ in range(3)] == ["result"] * 3
    times.of("b", list)
    assert times.medians == {"a": 2.0, "b": 7.0}


def test_the_memory_of_a_process_that_is_not_there_is_unknown():
    assert peak_mb() > 1
    assert peak_mb(2**22 + 1) == 0
