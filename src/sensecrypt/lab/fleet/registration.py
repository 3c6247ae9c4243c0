"""Registers a run with the key service: size, members, and the parameters that come first in every order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sensecrypt.config import AUTO, RunConfig
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.fleet.folder import AGGREGATOR, Description, FleetFolder
from sensecrypt.lab.fleet.making import ADMIN


def check_config(config: RunConfig, description: Description) -> None:
    """Raise for a configuration that this fleet cannot run."""
    from sensecrypt.transports.flower.settings import refuse_local_only

    if config.problem.clients != description.clients:
        problem = f"is {config.problem.clients}, and the fleet has {description.clients}"
        raise InvalidInput("clients", problem, "leave it out, or start a fleet of that many")
    if not 2 <= config.release.min_contributors <= description.clients:
        problem = f"is {config.release.min_contributors}, the fleet has {description.clients} clients"
        raise InvalidInput("min_contributors", problem, f"choose 2 to {description.clients}, or start a larger fleet")
    refuse_local_only(config)
    if config.encryption.profile == AUTO:
        raise InvalidInput("profile", "is auto, and a run is registered with one", "resolve it first: resolve_profile")


def register(folder: FleetFolder, description: Description, config: RunConfig, run: str) -> None:
    """Register the run as the fleet's admin."""
    from sensecrypt.keyservice.http.client import DkmsClient

    size, first = size_and_first(config)
    certificate, key, authority = folder.certificate(ADMIN)
    with DkmsClient(description.dkms_url, certificate=certificate, key=key, authority=authority) as admin:
        admin.register_run(
            run,
            size=size,
            profile=config.encryption.profile,
            members=dict(enumerate(description.members)),
            min_contributors=config.release.min_contributors,
            aggregators=[AGGREGATOR],
            quorum=config.release.quorum,
            first=first,
            rounds=config.training.rounds,
            server=config.server.rule,
        )


def ranges(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The set flags as ranges [start, stop)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def size_and_first(config: RunConfig) -> tuple[int, list[tuple[int, int]]]:
    """The number of parameters, and the ranges of those that come first in every order."""
    from sensecrypt.client.problem import always_of, configured_problem
    from sensecrypt.models import get_vector

    problem = configured_problem(config)
    initial = problem.build()
    always = always_of(config, initial, problem.classes)
    return get_vector(initial).size, [] if always is None else ranges(always)
