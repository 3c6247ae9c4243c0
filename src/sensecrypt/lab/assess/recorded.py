"""Attacks on a client of a recorded run, with what one role really received."""

from __future__ import annotations

from typing import Any

from sensecrypt.errors import NotApplicable
from sensecrypt.lab.assess.observing import observe_run
from sensecrypt.lab.attacks.ladder import ADVERSARIES as LADDER
from sensecrypt.lab.attacks.scores import score_labels
from sensecrypt.runs.folder import RunFolder


def recorded_rows(folder: RunFolder, *, number: int, client: int, adversary: str) -> list[dict[str, Any]]:
    """One row for each attack of the ladder that has what it needs; the target is the client's class histogram.

    Args:
        folder: of a run whose messages were kept.
        number: of the round.
        client: who is attacked.
        adversary: `eavesdropper`, `aggregator` or `aggregator+client`.
    """
    observed = observe_run(folder, number=number, client=client, adversary=adversary)
    rows = []
    for name, attack in LADDER.items():
        try:
            scores = score_labels(attack(observed.observation), observed.counts)
        except NotApplicable:
            continue
        rows.append(
            {
                "attack": "labels",
                "adversary": name,
                "role": adversary,
                "distribution": "run",
                "share": observed.encrypted,
                "rest": folder.read_config().encryption.rest,
                "attributed": observed.attributed,
                "recovered": observed.recovered,
                **vars(scores),
            }
        )
    return rows
