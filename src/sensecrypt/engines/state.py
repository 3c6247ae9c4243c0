"""What changes from round to round, and how it survives a crash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sensecrypt.engines.clock import SETUP
from sensecrypt.engines.parties import RUN_NAME, Ints
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.engines.work import Vector
from sensecrypt.protocol.keyserver import KeyServer


@dataclass
class State:
    """A run after so many rounds.

    Attributes:
        next_round: the first that was not played.
        labels: the cluster of each client.
        why: there are these clusters.
        vectors: the model of each cluster.
        moved: how far each is from the initial model, as the key server tells it; or the same as `vectors`.
        exposed: what an adversary knows of each of them, for policies that ask.
        rankings: of each cluster's parameters, for policies that rank once.
    """

    next_round: int
    labels: Ints
    why: str
    vectors: list[Vector]
    moved: list[Vector]
    exposed: list[Vector]
    rankings: list[Ints | None]

    def save(self, folder: RunFolder, server: KeyServer) -> None:
        """Replace the checkpoint, the key server's orders included."""
        tensors: dict[str, np.ndarray[Any, Any]] = {"labels": self.labels}
        for cluster, vector in enumerate(self.vectors):
            tensors[f"vector-{cluster}"] = vector
            tensors[f"moved-{cluster}"] = self.moved[cluster]
            tensors[f"exposed-{cluster}"] = self.exposed[cluster]
            more = {
                "order": server.order(RUN_NAME, cluster),
                "profile": server.profile(RUN_NAME, cluster),
                "ranking": self.rankings[cluster],
            }
            tensors |= {f"{name}-{cluster}": tensor for name, tensor in more.items() if tensor is not None}
        folder.save_checkpoint({"round": self.next_round, "why": self.why}, tensors)


def load_state(folder: RunFolder, server: KeyServer) -> State | None:
    """The last complete round, if there is one; records of later ones are dropped."""
    checkpoint = folder.load_checkpoint()
    if checkpoint is None:
        folder.forget_from(SETUP)
        return None
    header, tensors = checkpoint
    labels = tensors["labels"]
    clusters = range(int(labels.max()) + 1)
    for cluster in clusters:
        if f"order-{cluster}" in tensors:
            server.restore_order(RUN_NAME, cluster, tensors[f"order-{cluster}"], tensors[f"profile-{cluster}"])
    folder.forget_from(int(header["round"]))
    return State(
        int(header["round"]),
        labels,
        header["why"],
        [tensors[f"vector-{cluster}"] for cluster in clusters],
        [tensors[f"moved-{cluster}"] for cluster in clusters],
        [tensors[f"exposed-{cluster}"] for cluster in clusters],
        [tensors.get(f"ranking-{cluster}") for cluster in clusters],
    )
