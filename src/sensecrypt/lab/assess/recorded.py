"""Attacks on a client of a recorded run, with what one role really received."""

from __future__ import annotations

from typing import Any

from sensecrypt.lab.assess.observing import observe_run
from sensecrypt.lab.attacks.ladder import ADVERSARIES, attack_labels
from sensecrypt.runs.folder import RunFolder


def recorded_rows(folder: RunFolder, *, number: int, client: int, adversary: str) -> list[dict[str, Any]]:
    """One row per attack of the ladder that has its inputs; the target is the client's class histogram.

    Args:
        folder: of a run whose messages were kept.
        number: of the round.
        client: the attacked client.
        adversary: `eavesdropper`, `aggregator` or `aggregator+client`.
    """
    observed = observe_run(folder, number=number, client=client, adversary=adversary)
    rest = folder.read_config().encryption.rest
    return [
        {
            "attack": "labels",
            "adversary": name,
            "role": adversary,
            "distribution": "run",
            "share": observed.encrypted,
            "rest": rest,
            "attributed": observed.attributed,
            "recovered": observed.recovered,
            **vars(scores),
        }
        for name, scores in attack_labels(observed.observation, observed.counts, ADVERSARIES)
    ]
