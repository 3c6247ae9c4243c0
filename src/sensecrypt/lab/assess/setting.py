"""The clients that attacks are measured on, and the rows that the measurements become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.assess.peers import Peers
from sensecrypt.lab.assess.protection import Exposure, Protection, expose
from sensecrypt.lab.attacks.ladder import ADVERSARIES
from sensecrypt.lab.attacks.scores import with_interval
from sensecrypt.lab.attacks.synthetic import SyntheticClient, synthetic_client

COLLUSION = "collusion"
NAMES = (*ADVERSARIES, COLLUSION)
PLAINTEXT = Protection("plaintext", "paper", 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """What all attacked clients have in common.

    Attributes:
        model: a name in the zoo, or a function that builds a network from a seed.
        images: of the data set.
        labels: of the images.
        classes: their number.
        samples: K of each client.
        protections: what clients encrypt; plaintext is always added.
        adversaries: names of the ladder.
        steps: local steps; 1 is FedSGD.
        minibatch: samples per step; None: all.
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
        """Refuse unknown adversaries."""
        for name in self.adversaries:
            checks.choice("attacks", name, NAMES)

    def client(self, seed: int, distribution: str) -> SyntheticClient:
        """The client of a seed; its samples are `iid`, or of so many classes."""
        return synthetic_client(
            self.model,
            self.images,
            self.labels,
            classes=self.classes,
            samples=self.samples,
            seed=seed,
            distribution=distribution,
            steps=self.steps,
            minibatch=self.minibatch,
            trained=self.trained,
        )

    def exposures(self, client: SyntheticClient, seed: int) -> Iterator[tuple[Protection, Exposure]]:
        """Each protection, plaintext first, and what it leaves visible of a client."""
        peers = Peers(client, self.images, self.labels, seed=seed)
        for protection in dict.fromkeys([PLAINTEXT, *self.protections]):
            yield protection, expose(protection, peers)


def check_distribution(kind: str, classes: int, samples: int) -> None:
    """Refuse a distribution that no client can have: neither `iid` nor a possible number of classes."""
    if kind == "iid":
        return
    most = min(classes, samples)
    if not kind.isdecimal() or not 1 <= int(kind) <= most:
        problem = f"is {kind!r} for {samples:,} samples of {classes} classes"
        raise InvalidInput("distribution", problem, f"give iid, or a number of classes from 1 to {most}")


def mean_row(
    attack: str,
    adversary: str,
    protection: Protection,
    distribution: str,
    shares: Sequence[float],
    figures: Mapping[str, Sequence[float]],
) -> dict[str, Any]:
    """One row: each figure's mean over the clients with its interval, and the mean of the encrypted shares."""
    row: dict[str, Any] = {
        "attack": attack,
        "adversary": adversary,
        "policy": protection.policy,
        "preset": protection.preset,
        "rest": "blinded" if protection.blinded else "plain",
        "distribution": distribution,
        "share": float(np.mean(shares)),
        "seeds": len(next(iter(figures.values()))),
    }
    for name, values in figures.items():
        interval = with_interval(values)
        row |= {name: interval.mean, f"{name}_half": interval.half}
    return row
