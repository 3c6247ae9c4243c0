"""The key service of a run on one machine, and the clients' key."""

from __future__ import annotations

from dataclasses import dataclass

from sensecrypt.config import RunConfig
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey
from sensecrypt.errors import InvalidInput
from sensecrypt.keyservice.in_process import InProcessKeyService
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.keyserver import KeyServer, SharedKeyClients
from sensecrypt.protocol.releaserules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT, ReleaseRules
from sensecrypt.simulation.ahead import AheadKey
from sensecrypt.simulation.calibration import measure_cost_model
from sensecrypt.simulation.clock import CostModel
from sensecrypt.simulation.nullcipher import NullCipher
from sensecrypt.types import BoolVector


@dataclass(frozen=True, eq=False)
class LocalKeys:
    """The keys of a run.

    Attributes:
        service: the key service.
        clients: the key with which clients encrypt; the secret key if clients share it.
        cost_model: the cost model of a calibrated run; None: the run is real.
    """

    service: InProcessKeyService
    clients: EncryptionKey | DecryptionKey
    cost_model: CostModel | None


def make_keys(config: RunConfig, always: BoolVector | None, cost_model: CostModel | None = None) -> LocalKeys:
    """Return fresh keys for the configuration; in a calibrated run, null ciphers.

    Args:
        config: the run's configuration.
        always: the parameters that come first in every order.
        cost_model: seconds per ciphertext in a calibrated run; None: measure them.
    """
    policy, encryption = config.policy, config.encryption
    shared, ahead, encrypts = encryption.key_mode == "shared-key", encryption.randomness == "ahead", policy.encrypts
    clients, least = config.problem.clients, config.release.min_contributors
    if not shared and clients < least:
        problem = f"is {least}, but the run has {clients} client(s): no sum would be decrypted"
        fix = f"use more clients, or set min_contributors={clients}; members can then read each other's updates"
        raise InvalidInput("min_contributors", problem, fix)
    secret: DecryptionKey
    if encryption.crypto == "calibrated":
        if encrypts and cost_model is None:
            cost_model = measure_cost_model(encryption.profile, shared_key=shared, ahead=ahead)
        secret, ahead = NullCipher(get_profile(encryption.profile)), False
    else:
        cost_model, secret = None, generate_keypair(encryption.profile)[1]
        if encrypts:
            (secret if shared else secret.public).encrypt([0])  # builds the tables, which workers inherit
    rules = release_rules(config)
    service = InProcessKeyService(
        SharedKeyClients(secret) if shared else KeyServer(secret, rules=rules, statistics=config.server.statistics),
        secret.public,
        clients=clients,
        rules=rules,
        first=always,
        slot_order=config.selection.layout == "prefix" and policy.ranks_by is not None,
        workers=config.machines.workers,
        rule=config.server.rule,
    )
    key: EncryptionKey | DecryptionKey = secret if shared else secret.public
    return LocalKeys(service, AheadKey(key) if ahead else key, cost_model)


def release_rules(config: RunConfig) -> ReleaseRules:
    """Return the release rules: those of a fleet's key service; if clients share the key, almost none.

    If clients share the key, weights are n_i / Σ n_j, as in the paper, and a quorum would cap them. If
    `min_contributors` allows sums of two, no client is protected from a colluder, so the rules assume no colluders.
    """
    least = config.release.min_contributors
    if config.encryption.key_mode == "shared-key":
        return ReleaseRules(min_contributors=1)
    if least == 1:
        return ReleaseRules(least, config.release.quorum)
    return ReleaseRules(least, config.release.quorum, LARGEST_WEIGHT, LARGEST_RATIO, min(COLLUDERS, least - 2))
