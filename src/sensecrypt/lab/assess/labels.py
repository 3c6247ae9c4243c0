"""How much of a client's labels each adversary finds, over seeds, with the prior and the plaintext beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.algo.leakage import mutual_information
from sensecrypt.crypto.parallel import may_fork
from sensecrypt.errors import InvalidInput, NotApplicable
from sensecrypt.lab.assess.peers import Peers
from sensecrypt.lab.assess.protection import Exposure, Protection, expose
from sensecrypt.lab.attacks.ladder import ADVERSARIES
from sensecrypt.lab.attacks.observation import FloatVector
from sensecrypt.lab.attacks.scores import LabelScores, score_labels, with_interval
from sensecrypt.lab.attacks.synthetic import SyntheticClient, synthetic_client
from sensecrypt.rng import derive_rng
from sensecrypt.types import Mask

COLLUSION = "collusion"
NAMES = (*ADVERSARIES, COLLUSION)
PLAINTEXT = Protection("plaintext", "paper", 0.0)
FIGURES = ("leacc", "lnacc", "irec", "distance", "top1")


def check_distribution(kind: str, classes: int, samples: int) -> None:
    """Refuse what no client can have: `iid`, or a number of classes up to both."""
    if kind == "iid":
        return
    most = min(classes, samples)
    if not kind.isdecimal() or not 1 <= int(kind) <= most:
        problem = f"is {kind!r} for {samples:,} samples of {classes} classes"
        raise InvalidInput("distribution", problem, f"give iid, or a number of classes from 1 to {most}")


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelSetting:
    """What all attacked clients have in common.

    Attributes:
        model: a name in the zoo, or what makes a network from a seed.
        images: of the data set.
        labels: of the images.
        classes: how many there are.
        samples: K of each client.
        protections: what clients encrypt; plaintext comes in any case.
        adversaries: names of the ladder.
        steps: local steps; 1 is FedSGD.
        minibatch: samples a step; None: all.
        trained: steps that the model was trained before.
    """

    model: str | Callable[[int], nn.Module]
    images: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    classes: int
    samples: int
    protections: Sequence[Protection]
    adversaries: Sequence[str] = NAMES
    steps: int = 1
    minibatch: int | None = None
    trained: int = 0

    def __post_init__(self) -> None:
        """Refuse adversaries that there are not."""
        for name in self.adversaries:
            checks.choice("attacks", name, NAMES)


def label_rows(
    setting: LabelSetting,
    *,
    distributions: Sequence[str],
    seeds: int,
    first_seed: int = 0,
    workers: int = 1,
    on_step: Callable[[str, int], None] | None = None,
) -> list[dict[str, Any]]:
    """One row for each distribution, protection and adversary that has what it needs.

    Args:
        setting: of the clients.
        distributions: `iid`, or numbers of classes.
        seeds: clients a row.
        first_seed: of the clients.
        workers: processes; the rows do not depend on it.
        on_step: told the distribution and how many clients are done.
    """
    checks.whole("seeds", seeds, low=1)
    found: dict[tuple[str, Protection, str], list[Judged]] = {}
    calls = [(distribution, first_seed + seed) for distribution in distributions for seed in range(seeds)]
    for done, (call, judged) in enumerate(zip(calls, _each(setting, calls, workers), strict=True)):
        for each in judged:
            found.setdefault((call[0], each.protection, each.adversary), []).append(each)
        if on_step is not None:
            on_step(call[0], done % seeds + 1)
    return [
        _row(distribution, protection, adversary, judged)
        for (distribution, protection, adversary), judged in found.items()
    ]


@dataclass(frozen=True)
class Judged:
    """One adversary against one client.

    Attributes:
        protection: what the client encrypts.
        adversary: who.
        share: of the parameters that was really encrypted.
        mi: mutual information in bits between all weights and the plain ones.
        scores: what was found.
    """

    protection: Protection
    adversary: str
    share: float
    mi: float
    scores: LabelScores


def judge(setting: LabelSetting, distribution: str, seed: int) -> list[Judged]:
    """All adversaries against one client, under every protection."""
    client = synthetic_client(
        setting.model,
        setting.images,
        setting.labels,
        classes=setting.classes,
        samples=setting.samples,
        seed=seed,
        distribution=distribution,
        steps=setting.steps,
        minibatch=setting.minibatch,
        trained=setting.trained,
    )
    peers = Peers(client, setting.images, setting.labels, seed=seed)
    judged = []
    for protection in dict.fromkeys([PLAINTEXT, *setting.protections]):
        rng = derive_rng(seed, f"protection {protection.name} {protection.share}")
        seen = expose(protection, peers, rng=rng)
        share = float(seen.hidden.mean())
        mi = mutual_information(client.observation.before, Mask.from_array(seen.hidden))
        judged += [
            Judged(protection, name, share, mi, score_labels(raw, client.counts))
            for name, raw in _guesses(client, seen, setting.adversaries)
        ]
    return judged


_SETTING: list[LabelSetting] = []  # in a worker process: what it inherited


def _each(setting: LabelSetting, calls: Sequence[tuple[str, int]], workers: int) -> Iterator[list[Judged]]:
    if workers == 1 or not may_fork():
        yield from (judge(setting, *call) for call in calls)
        return
    with ProcessPoolExecutor(workers, get_context("fork"), _enter, (setting,)) as pool:
        yield from pool.map(_judge, calls)


def _enter(setting: LabelSetting) -> None:
    torch.set_num_threads(1)
    _SETTING.append(setting)


def _judge(call: tuple[str, int]) -> list[Judged]:
    return judge(_SETTING[0], *call)


def _guesses(client: SyntheticClient, seen: Exposure, names: Sequence[str]) -> Iterator[tuple[str, FloatVector]]:
    """What each adversary makes of what it sees; those who lack their input are left out."""
    alone = seen.to(client, colluding=False)
    for name in names:
        if name == COLLUSION:
            yield name, ADVERSARIES["prototype"](seen.to(client, colluding=True))
            continue
        try:
            yield name, ADVERSARIES[name](alone)
        except NotApplicable:
            continue


def _row(distribution: str, protection: Protection, adversary: str, judged: Sequence[Judged]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "attack": "labels",
        "adversary": adversary,
        "policy": protection.policy,
        "preset": protection.preset,
        "rest": "blinded" if protection.blinded else "plain",
        "distribution": distribution,
        "share": float(np.mean([each.share for each in judged])),
        "mi": float(np.mean([each.mi for each in judged])),
        "seeds": len(judged),
    }
    for figure in FIGURES:
        interval = with_interval([getattr(each.scores, figure) for each in judged])
        row |= {figure: interval.mean, f"{figure}_half": interval.half}
    return row
