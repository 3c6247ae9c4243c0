"""Who takes part in a run on one machine, and with what: everything that no round changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.config import RunConfig
from sensecrypt.engines.budgets import measures_bandwidth
from sensecrypt.engines.clock import Prices
from sensecrypt.engines.keyring import Keyring, make_keys
from sensecrypt.engines.notes import grow
from sensecrypt.engines.outcome import Record
from sensecrypt.engines.problem import Problem, always_of
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.engines.work import Vector, World
from sensecrypt.engines.workers import Workers
from sensecrypt.engines.worktime import work_seconds
from sensecrypt.errors import InvalidInput
from sensecrypt.models import get_vector, layout
from sensecrypt.policies import get_policy
from sensecrypt.policies.policy import Policy
from sensecrypt.policies.situation import blocks_of
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.round import Round

RUN_NAME = "local"
Intercept = Callable[[int, int, bytes], bytes | None]
Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Parties:
    """All of them.

    Attributes:
        config: of the run.
        policy: who encrypts what.
        folder: where everything is written.
        keys: who holds which.
        world: what the clients have.
        workers: the processes that play them.
        samples: how many each client has.
        initial: the model before the first round.
        clip: the bound on an update's norm; None: clients send weights.
        intercept: stands between clients and aggregator, for tests.
    """

    config: RunConfig
    policy: Policy
    folder: RunFolder
    keys: Keyring
    world: World
    workers: Workers
    samples: Ints
    initial: Vector
    clip: float | None
    intercept: Intercept | None

    @property
    def size(self) -> int:
        """Parameters of the model."""
        return self.initial.size

    @property
    def ordered(self) -> bool:
        """Whether clusters have a secret order of their parameters."""
        return self.config.layout == "prefix" and self.policy.ranks_by is not None

    def describe(self, labels: Ints, cluster: int, number: int, purpose: str, attempt: int = 0) -> Round:
        """What all members of a cluster agree on before a round."""
        members = np.flatnonzero(labels == cluster)
        total = int(self.samples[members].sum())
        weights = {int(client): int(self.samples[client]) / total for client in members}
        factors = {int(client): int(self.samples[client]) for client in members}
        return Round(
            RUN_NAME,
            number,
            cluster,
            purpose,
            self.size,
            get_profile(self.config.profile),
            weights,
            attempt,
            factors if self.config.weighting == "server" else None,
            self.clip if purpose == "model" else None,
        )

    def charge(self, server: Record, start: float, rest: str) -> None:
        """Note what the servers spent since `start`: on cryptography as the meter says, on the rest as measured."""
        took = work_seconds() - start
        spent = self.keys.meter.take()
        charged = {
            rest: max(0.0, took - spent.actual_seconds),
            "add_seconds": spent.seconds["add"],
            "added_blocks": spent.blocks["add"],
            "decrypt_seconds": spent.seconds["decrypt"],
            "decrypted_blocks": spent.blocks["decrypt"],
        }
        if self.config.weighting == "server":
            charged |= {
                "multiply_seconds": spent.seconds["multiply"],
                "multiplied_blocks": spent.blocks["multiply"],
                "add_plain_seconds": spent.seconds["add_plain"],
                "plain_added_blocks": spent.blocks["add_plain"],
            }
        grow(server, charged)


def gather(
    config: RunConfig,
    problem: Problem,
    folder: RunFolder,
    *,
    intercept: Intercept | None,
    memo: Path | None,
    prices: Prices | None,
) -> Parties:
    """Everybody for this run; what could never run is refused here."""
    policy = get_policy(config.policy)
    ordered = config.layout == "prefix" and policy.ranks_by is not None
    if measures_bandwidth(config) and config.clustering == "none" and not ordered:
        fix = "choose bandwidth declared, clustering auto, or layout prefix"
        raise InvalidInput("bandwidth", "is measured by an answer before the first round, and there is none", fix)
    initial = problem.build()
    vector = get_vector(initial)
    size = vector.size
    if policy.uses_ratio:
        block = min(get_profile(config.profile).slots, size)
        blocks_of(config.ratio, -(-size // block), block)  # refuses what would encrypt nothing
    always = always_of(config, initial, problem.classes)
    keys = make_keys(config, prices)
    layers = {name: math.prod(shape) for name, shape in layout(initial)}
    data = dict(enumerate(problem.clients))
    world = World(config, problem.build, data, keys.clients, memo, always, padded=config.padded, layers=layers)
    clip = clip_bound(config.clip, vector) if config.uploads == "updates" else None
    samples = np.array([len(labels) for _, labels in problem.clients])
    return Parties(
        config, policy, folder, keys, world, Workers(world, config.workers), samples, vector, clip, intercept
    )
