"""One run with four clients, played through a service by the protocol's own code."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from sensecrypt import Mask
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.answers import Acknowledgement
from sensecrypt.protocol.messages import Aggregate
from sensecrypt.protocol.protection import ProtectedUpdate, protect_model, protect_sensitivity
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round, address_of
from tests.keyservice.conftest import CLIENTS, Server

_names = itertools.count()
SAMPLES = {client: 5 + client for client in range(CLIENTS)}
WEIGHTS = {client: samples / sum(SAMPLES.values()) for client, samples in SAMPLES.items()}


class Played:
    """A registered run and its parties."""

    def __init__(
        self,
        server: Server,
        *,
        size: int = 100,
        profile: str = "insecure-test",
        first: tuple[tuple[int, int], ...] = (),
        samples: Mapping[int, int] = SAMPLES,
        min_contributors: int = 2,
    ):
        self.server, self.size, self.profile = server, size, get_profile(profile)
        self.run = f"run-{next(_names)}"
        self.models = np.random.default_rng(5).normal(0, 0.5, (len(samples), size)).astype(np.float32)
        self.members = {client: f"phone-{client}" for client in samples}
        self.samples = samples
        asked = {"size": size, "profile": profile, "members": self.members, "min_contributors": min_contributors}
        with self.admin() as admin:
            self.told = admin.register_run(self.run, **asked, first=first)
        self.report_samples()

    @property
    def rules(self) -> ReleaseRules:
        return ReleaseRules(**{each.name: self.told[each.name] for each in fields(ReleaseRules)})

    def report_samples(self) -> None:
        for client, count in self.samples.items():
            with self.client(client) as identity:
                identity.report_samples(self.run, count)

    def admin(self) -> DkmsClient:
        return self.server.identity("admin", "admin")

    def aggregator(self) -> DkmsClient:
        return self.server.identity("aggregator", "aggregator")

    def client(self, number: int, **more) -> DkmsClient:
        return self.server.identity("client", f"phone-{number}", **more)

    def round(self, number: int = 0, *, purpose: str = "model", cluster: int = 0, attempt: int = 0, members=None):
        members = self.samples if members is None else members
        weights = self.rules.weights({client: self.samples[client] for client in members})
        return Round(self.run, number, cluster, purpose, self.size, self.profile, weights, attempt)

    def register(self, round_: Round) -> Round:
        with self.aggregator() as aggregator:
            aggregator.register_round(round_)
        return round_

    def protect(self, round_: Round, client: int) -> ProtectedUpdate:
        """What a client makes of a round: everything it needs comes from the service."""
        with self.client(client) as identity:
            key, seed = identity.public_key(self.run), identity.task(address_of(round_)).seed
            if round_.purpose == "sensitivity":
                return protect_sensitivity(np.abs(self.models[client]), round_, client=client, key=key, seed=seed)
            ranking = identity.task(address_of(round_)).ranking
            order = None if ranking is None else ranking.order
            mask = Mask.prefix(round_.blocks // 2, size=self.size, block=round_.block, order=order)
            return protect_model(self.models[client], mask, round_, client=client, key=key, seed=seed, blinded=True)

    def upload(self, round_: Round, clients=None, *, tags=None, protected_before=None) -> Aggregate:
        """Clients seal and hand in tags, but for those who did both before; the sum of their uploads."""
        protected_before = protected_before or {}
        clients = sorted(round_.weights) if clients is None else clients
        with self.aggregator() as aggregator:
            total = RoundSum(round_, aggregator.public_key(self.run))
        for client in clients:
            protected = protected_before.get(client) or self.protect(round_, client)
            total.add(protected.upload, sender=client)
            if client not in protected_before and (tags is None or client in tags):
                with self.client(client) as identity:
                    identity.send_tag(protected.tag, round_)
        return total.close()

    def release(self, aggregate: Aggregate, round_: Round) -> Acknowledgement:
        with self.aggregator() as aggregator:
            return aggregator.release(aggregate.to_bytes(round_), round_)

    def play(self, round_: Round) -> Acknowledgement:
        return self.release(self.upload(self.register(round_)), round_)

    def model(self, round_: Round, client: int = 0) -> np.ndarray:
        with self.client(client) as identity:
            return identity.moved(address_of(round_), round_.size)

    def events(self, event: str) -> list[dict]:
        return [line for line in self.server.audit() if line["event"] == event and line.get("run") == self.run]


def expected_model(played: Played) -> np.ndarray:
    """The weighted mean, to the byte what a round without encryption and without a service gives."""
    from sensecrypt.protocol.protection import model_format

    round_ = played.round()
    values = sum(model_format(round_).encode(played.models[client], WEIGHTS[client]) for client in range(CLIENTS))
    return model_format(round_).decode(values, sum(WEIGHTS.values())).astype(np.float32)
