"""How a fleet's client joins a run: only if the run meets its conditions, and with data that are loaded after that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client.client import Client
from sensecrypt.client.context import ClientContext, Vector
from sensecrypt.client.guards import Guards
from sensecrypt.client.identity import Party
from sensecrypt.client.problem import Share, always_of
from sensecrypt.client.training import Fit, accuracy_on
from sensecrypt.config import RunConfig
from sensecrypt.errors import Rejected
from sensecrypt.keyservice.port import ClientKeyService
from sensecrypt.models import get_vector, set_vector
from sensecrypt.simulation.ahead import AheadKey

Load = Callable[[RunConfig, int], Share]


def require_terms(config: RunConfig, run: str, party: Party, keyservice: ClientKeyService) -> int:
    """This client's number in a run that meets its conditions, or `Rejected`; no data are loaded for it."""
    described = keyservice.run(run)
    party.conditions.require_run(config, described)
    if described["server"] != asdict(config.server_rule):
        raise Rejected("the key service moves models by another rule than the run's settings say")
    return int(described["client"])


def join_run(
    config: RunConfig, run: str, party: Party, keyservice: ClientKeyService, load: Load, *, fit: Fit | None = None
) -> Client:
    """The client that this party is in a run, if the run meets its conditions.

    Args:
        config: of the run.
        run: its name.
        party: who this is, and its conditions.
        keyservice: as this client sees it.
        load: gives this client's part of the problem.
        fit: trains a model in place of stochastic gradient descent as configured.
    """
    number = require_terms(config, run, party, keyservice)
    share = load(config, number)
    initial = share.build()
    vector: Vector = get_vector(initial)
    public = keyservice.public_key(run)
    context = ClientContext(
        config,
        share.build,
        {number: share.data},
        AheadKey(public) if config.randomness == "ahead" else public,
        always=always_of(config, initial, share.classes),
        fit=fit,
        padded=config.padded or party.rest == "padded",
        discreet=True,
        local=party.conditions.batches == "local",
    )
    return Client(
        number,
        run,
        context,
        vector,
        clip_bound(config.clip, vector) if config.uploads == "updates" else None,
        keyservice,
        party.state / run,
        accuracy=partial(_accuracy, share) if party.tell_accuracy else None,
        party=party,
        guards=Guards(party.state, run, share.data),
    )


def _accuracy(share: Share, vector: Vector) -> float:
    model = share.build()
    set_vector(model, vector)
    return accuracy_on(model, share.test, share.data[1], share.classes)
