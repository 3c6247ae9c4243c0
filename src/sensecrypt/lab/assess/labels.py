"""How much of a client's labels each adversary finds, over seeds; guessing and plaintext are always included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from sensecrypt import checks
from sensecrypt.algo.leakage import mutual_information
from sensecrypt.crypto.parallel import may_fork
from sensecrypt.lab.assess.protection import Exposure, Protection
from sensecrypt.lab.assess.setting import COLLUSION, Setting, mean_row
from sensecrypt.lab.attacks.ladder import ADVERSARIES, attack_labels
from sensecrypt.lab.attacks.scores import LabelScores, score_labels
from sensecrypt.lab.attacks.synthetic import SyntheticClient
from sensecrypt.types import Mask

FIGURES = ("leacc", "lnacc", "irec", "distance", "top1")


@dataclass(frozen=True)
class Judged:
    """One adversary against one client.

    Attributes:
        protection: what the client encrypts.
        adversary: its name.
        share: of the parameters that was really encrypted.
        mi: mutual information in bits between all weights and the plain ones.
        scores: of the labels found.
    """

    protection: Protection
    adversary: str
    share: float
    mi: float
    scores: LabelScores


def label_rows(
    setting: Setting,
    *,
    distributions: Sequence[str],
    seeds: int,
    first_seed: int = 0,
    workers: int = 1,
    on_step: Callable[[str, int], None] | None = None,
) -> list[dict[str, Any]]:
    """One row per distribution, protection and adversary that has the inputs it needs.

    Args:
        setting: of the clients.
        distributions: `iid`, or numbers of classes.
        seeds: clients per row.
        first_seed: of the clients.
        workers: processes; the rows do not depend on it.
        on_step: called with the distribution and the number of finished clients.
    """
    checks.whole("seeds", seeds, low=1)
    found: dict[tuple[str, Protection, str], list[Judged]] = {}
    calls = [(distribution, first_seed + seed) for distribution in distributions for seed in range(seeds)]
    for done, (call, judged) in enumerate(zip(calls, _each(setting, calls, workers), strict=True)):
        for each in judged:
            found.setdefault((call[0], each.protection, each.adversary), []).append(each)
        if on_step is not None:
            on_step(call[0], done % seeds + 1)
    rows = []
    for (distribution, protection, adversary), judged in found.items():
        figures = {name: [getattr(each.scores, name) for each in judged] for name in FIGURES}
        row = mean_row("labels", adversary, protection, distribution, [each.share for each in judged], figures)
        rows.append(row | {"mi": float(np.mean([each.mi for each in judged]))})
    return rows


def judge(setting: Setting, distribution: str, seed: int) -> list[Judged]:
    """All adversaries against one client, under every protection."""
    client = setting.client(seed, distribution)
    judged = []
    for protection, seen in setting.exposures(client, seed):
        share = float(seen.hidden.mean())
        mi = mutual_information(client.observation.before, Mask.from_array(seen.hidden))
        for name, scores in _scores(client, seen, setting.adversaries):
            judged.append(Judged(protection, name, share, mi, scores))
    return judged


_SETTING: list[Setting] = []  # in a worker process: inherited from its parent


def _each(setting: Setting, calls: Sequence[tuple[str, int]], workers: int) -> Iterator[list[Judged]]:
    if workers == 1 or not may_fork():
        yield from (judge(setting, *call) for call in calls)
        return
    with ProcessPoolExecutor(workers, get_context("fork"), _enter, (setting,)) as pool:
        yield from pool.map(_judge, calls)


def _enter(setting: Setting) -> None:
    torch.set_num_threads(1)
    _SETTING.append(setting)


def _judge(call: tuple[str, int]) -> list[Judged]:
    return judge(_SETTING[0], *call)


def _scores(client: SyntheticClient, seen: Exposure, names: Sequence[str]) -> Iterator[tuple[str, LabelScores]]:
    """The scores of each adversary that has its inputs; collusion, which sees more, comes last."""
    alone = [name for name in names if name != COLLUSION]
    yield from attack_labels(seen.to(client, colluding=False), client.counts, alone)
    if COLLUSION in names:
        yield COLLUSION, score_labels(ADVERSARIES["prototype"](seen.to(client, colluding=True)), client.counts)
