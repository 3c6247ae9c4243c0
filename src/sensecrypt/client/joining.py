"""Joins a fleet's client to a run: first checks the run against the client's conditions, then loads its data."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client.client import Client
from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.client.data import as_data
from sensecrypt.client.identity import Identity
from sensecrypt.client.problem import Share, always_of
from sensecrypt.client.replayguard import ReplayGuard
from sensecrypt.client.training import PLAIN, Recipe, accuracy_on, measure
from sensecrypt.config import RunConfig
from sensecrypt.crypto.publicfile import read_public, write_public
from sensecrypt.crypto.scheme import StorablePublicKey
from sensecrypt.errors import InvalidInput, KeyFileError, Rejected
from sensecrypt.files import make_folder
from sensecrypt.keyservice.port import ClientKeyService
from sensecrypt.models import get_vector, require_averageable, set_vector, statistics_count
from sensecrypt.simulation.ahead import AheadKey

Load = Callable[[RunConfig, int], Share]


def require_terms(config: RunConfig, run: str, identity: Identity, keyservice: ClientKeyService) -> dict[str, Any]:
    """Return the key service's description of a run; raise `Rejected` if a condition is not met. Loads no data."""
    described = keyservice.run(run)
    identity.conditions.require_run(config, described)
    if described["server"] != asdict(config.server.rule):
        raise Rejected("the key service's server update differs from that in the run's settings")
    return described


def join_run(
    config: RunConfig, run: str, identity: Identity, keyservice: ClientKeyService, load: Load, *, recipe: Recipe = PLAIN
) -> Client:
    """Return the run's client with this identity; raise `Rejected` if the run does not meet its conditions.

    Args:
        config: the run's configuration.
        run: the run's name.
        identity: the client's identity and conditions.
        keyservice: the connection to the key service.
        load: returns this client's part of the problem.
        recipe: how models train.
    """
    described = require_terms(config, run, identity, keyservice)
    number = int(described["client"])
    share = load(config, number)
    initial = share.build()
    require_averageable(initial)
    many = statistics_count(initial)
    if many != config.server.statistics:
        problem = f"is {config.server.statistics}, but the model has {many}"
        raise InvalidInput("statistics", problem, f"submit the run with statistics = {many}")
    vector: Vector = get_vector(initial)
    data = as_data(share.data)
    public = _public_key(
        identity.state / run / "key.json", described["fingerprint"], lambda: keyservice.public_key(run)
    )
    context = ClientContext(
        config,
        share.build,
        {number: data},
        AheadKey(public) if config.encryption.randomness == "ahead" else public,
        always=always_of(config, initial, share.classes),
        recipe=recipe,
        blinded=config.encryption.blinded or identity.rest == "blinded",
        discreet=True,
        local=identity.conditions.batches == "local",
    )
    return Client(
        number,
        run,
        context,
        vector,
        clip_bound(config.training.clip, vector[: vector.size - many])
        if config.training.uploads == "updates"
        else None,
        keyservice,
        identity.state / run,
        accuracy=partial(_accuracy, share, recipe) if identity.tell_accuracy else None,
        identity=identity,
        guard=ReplayGuard(identity.state, run, data),
    )


def _public_key(path: Path, fingerprint: str, fetch: Callable[[], StorablePublicKey]) -> StorablePublicKey:
    """Return the run's public key; it is fetched once and stored as long as the key service names the same key."""
    with contextlib.suppress(KeyFileError):
        kept = read_public(path)
        if kept.fingerprint == fingerprint:
            return kept
    key = fetch()
    if key.fingerprint != fingerprint:
        raise Rejected("the key service names one public key, but returns another")
    make_folder(path.parent)
    write_public(path, key, force=True)
    return key


def _accuracy(share: Share, recipe: Recipe, vector: Vector) -> float:
    """Return the accuracy on test data with this client's label distribution; without labels, on all test data."""
    model = share.build()
    set_vector(model, vector)
    own, test = as_data(share.data).pair, as_data(share.test, "test")
    if own is not None and test.pair is not None and recipe.plain and share.classes:
        return accuracy_on(model, test.pair, own[1], share.classes)
    return measure(model, test, recipe).get("accuracy", math.nan)
