"""How much of a client's labels each adversary finds, over seeds, with the prior and the plaintext beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.assess.protection import Exposure, Protection, expose
from sensecrypt.attacks.ladder import ADVERSARIES
from sensecrypt.attacks.observation import FloatVector
from sensecrypt.attacks.scores import score_labels, with_interval
from sensecrypt.attacks.synthetic import SyntheticClient, synthetic_client
from sensecrypt.errors import InvalidInput
from sensecrypt.rng import derive_rng

COLLUSION = "collusion"
NAMES = (*ADVERSARIES, COLLUSION)
PLAINTEXT = Protection("plaintext", "paper", 0.0)
FIGURES = ("leacc", "lnacc", "irec", "distance", "top1")


def label_rows(
    *,
    model: str,
    images: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.int64],
    classes: int,
    samples: int,
    seeds: int,
    distributions: Sequence[str],
    protections: Sequence[Protection],
    adversaries: Sequence[str] = NAMES,
    steps: int = 1,
    minibatch: int | None = None,
    trained: int = 0,
    on_step: Callable[[str, int], None] | None = None,
) -> list[dict[str, Any]]:
    """One row for each distribution, protection and adversary that has what it needs; plaintext always among them.

    Args:
        model: a name in the zoo.
        images: of the data set.
        labels: of the images.
        classes: how many there are.
        samples: K of each client.
        seeds: clients a row.
        distributions: `iid`, or numbers of classes.
        protections: what clients encrypt.
        adversaries: names of the ladder.
        steps: local steps; 1 is FedSGD.
        minibatch: samples a step; None: all.
        trained: steps that the model was trained before.
        on_step: told the distribution and how many seeds are done.
    """
    checks.whole("seeds", seeds, low=1)
    for name in adversaries:
        checks.choice("attacks", name, NAMES)
    judged = list(dict.fromkeys([PLAINTEXT, *protections]))
    found: dict[tuple[str, Protection, str], list[dict[str, float]]] = {}
    shares: dict[tuple[str, Protection], list[float]] = {}
    for distribution in distributions:
        for seed in range(seeds):
            client = synthetic_client(
                model,
                images,
                labels,
                classes=classes,
                samples=samples,
                seed=seed,
                distribution=distribution,
                steps=steps,
                minibatch=minibatch,
                trained=trained,
            )
            for protection in judged:
                rng = derive_rng(seed, f"protection {protection.name} {protection.share}")
                seen = expose(protection, client, images, labels, rng=rng)
                shares.setdefault((distribution, protection), []).append(float(seen.hidden.mean()))
                for name, raw in _guesses(client, seen, adversaries):
                    scores = asdict(score_labels(raw, client.counts))
                    found.setdefault((distribution, protection, name), []).append(scores)
            if on_step is not None:
                on_step(distribution, seed + 1)
    return [
        _row(distribution, protection, name, float(np.mean(shares[distribution, protection])), scores)
        for (distribution, protection, name), scores in found.items()
    ]


def _guesses(client: SyntheticClient, seen: Exposure, names: Sequence[str]) -> Iterator[tuple[str, FloatVector]]:
    """What each adversary makes of what it sees; those who lack their input are left out."""
    alone = seen.to(client, colluding=False)
    for name in names:
        if name == COLLUSION:
            yield name, ADVERSARIES["prototype"](seen.to(client, colluding=True))
            continue
        try:
            yield name, ADVERSARIES[name](alone)
        except InvalidInput:
            continue


def _row(
    distribution: str, protection: Protection, adversary: str, share: float, scores: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "attack": "labels",
        "adversary": adversary,
        "policy": protection.policy,
        "preset": protection.preset,
        "distribution": distribution,
        "share": share,
        "seeds": len(scores),
    }
    for figure in FIGURES:
        interval = with_interval([each[figure] for each in scores])
        row |= {figure: interval.mean, f"{figure}_half": interval.half}
    return row
