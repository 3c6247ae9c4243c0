"""The key service of a run on one machine, and the key that its clients encrypt with."""

from __future__ import annotations

from dataclasses import dataclass

from sensecrypt.config import RunConfig
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey
from sensecrypt.errors import InvalidInput
from sensecrypt.keyservice.in_process import InProcessKeyService
from sensecrypt.policies import get_policy
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.sharedkey import SharedKeyClients
from sensecrypt.protocol.sumrules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT, SumRules
from sensecrypt.simulation.ahead import AheadKey
from sensecrypt.simulation.calibration import measure_prices
from sensecrypt.simulation.clock import Prices
from sensecrypt.simulation.nullcipher import NullCipher
from sensecrypt.types import BoolVector


@dataclass(frozen=True, eq=False)
class LocalKeys:
    """Who has what.

    Attributes:
        service: the key service.
        clients: what clients encrypt with; the secret key where they share it.
        prices: of a calibrated run.
    """

    service: InProcessKeyService
    clients: EncryptionKey | DecryptionKey
    prices: Prices | None


def make_keys(config: RunConfig, always: BoolVector | None, prices: Prices | None = None) -> LocalKeys:
    """Fresh keys as the configuration wants them; in a calibrated run, what stands for them.

    Args:
        config: of the run.
        always: parameters that come first in every order.
        prices: of a calibrated run's ciphertexts; None: they are measured.
    """
    shared, ahead, encrypts = (
        config.key_mode == "shared-key",
        config.randomness == "ahead",
        get_policy(config.policy).encrypts,
    )
    if not shared and config.clients < config.min_contributors:
        problem = f"is {config.min_contributors}, and the run has {config.clients} client(s): no sum would be decrypted"
        fix = f"use more clients, or set min_contributors={config.clients}, with which members can read each other"
        raise InvalidInput("min_contributors", problem, fix)
    secret: DecryptionKey
    if config.crypto == "calibrated":
        if encrypts and prices is None:
            prices = measure_prices(config.profile, shared_key=shared, ahead=ahead)
        secret, ahead = NullCipher(get_profile(config.profile)), False
    else:
        prices, secret = None, generate_keypair(config.profile)[1]
        if encrypts:
            (secret if shared else secret.public).encrypt([0])  # builds the tables, which workers inherit
    rules = release_rules(config)
    service = InProcessKeyService(
        SharedKeyClients(secret) if shared else KeyServer(secret, rules=rules),
        secret.public,
        clients=config.clients,
        rules=rules,
        first=always,
        slot_order=config.layout == "prefix" and get_policy(config.policy).ranks_by is not None,
        workers=config.workers,
        rule=config.server_rule,
    )
    clients: EncryptionKey | DecryptionKey = secret if shared else secret.public
    return LocalKeys(service, AheadKey(clients) if ahead else clients, prices)


def release_rules(config: RunConfig) -> SumRules:
    """The rules for sums: those of a key service, as a fleet has them; none where clients share the key.

    Weights there are n_i / Σ n_j, as the paper has them: a quorum of its own would cap them. A run whose
    `min_contributors` allows sums of two hides nobody from a colluder, so none is assumed, as in a fleet of two.
    """
    least = config.min_contributors
    if config.key_mode == "shared-key":
        return SumRules(min_contributors=1)
    if least == 1:
        return SumRules(least, config.quorum)
    return SumRules(least, config.quorum, LARGEST_WEIGHT, LARGEST_RATIO, min(COLLUDERS, least - 2))
