from __future__ import annotations

from sensecrypt.lab.experiments.imbalance import draw, judge


def rows(seconds):
    """HE seconds by budget and client, client 1 the fastest."""
    return [
        {"budget": budget, "client": client, "cpus": 7 - client, "he_seconds": value}
        for budget, values in seconds.items()
        for client, value in enumerate(values, start=1)
    ]


def outcomes(seconds):
    return [verdict.outcome for verdict in judge(rows(seconds))]


def test_the_papers_clients():
    assert outcomes({0.1: [10, 11, 11], 0.5: [20, 40, 60], 0.9: [45, 80, 120]}) == ["reproduced"] * 3


def test_work_that_is_divided_by_cpus_is_not_similar_at_ten_per_cent():
    assert outcomes({0.1: [10, 20, 60], 0.9: [90, 180, 540]}) == ["not reproduced", "not reproduced", "reproduced"]
    assert outcomes({0.1: [10, 12, 19], 0.9: [10, 12, 19]}) == [
        "reproduced in shape",
        "not reproduced",
        "not reproduced",
    ]


def test_the_picture_names_clients_and_cpus():
    [axes] = draw(rows({0.1: [10, 20, 60], 0.9: [90, 180, 540]})).axes
    assert "6 CPUs" in axes.get_xticklabels()[0].get_text()
