"""The keys of a run, each in the hands that may hold it, all metered."""

from __future__ import annotations

from dataclasses import dataclass

from sensecrypt.config import RunConfig
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.scheme import DecryptionKey
from sensecrypt.engines.calibrated import TransparentKey, measure_prices
from sensecrypt.engines.clock import Prices
from sensecrypt.engines.meter import Meter, MeteredKey
from sensecrypt.errors import InvalidInput
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.sharedkey import SharedKeyClients
from sensecrypt.protocol.sumrules import SumRules


@dataclass(frozen=True, eq=False)
class Keyring:
    """Who has what.

    Attributes:
        server: the key server, or the clients that share the secret key.
        clients: what clients encrypt with.
        public: what the aggregator has.
        meter: counts what is done in this process.
        prices: of a calibrated run.
    """

    server: KeyServer
    clients: MeteredKey
    public: MeteredKey
    meter: Meter
    prices: Prices | None


def make_keys(config: RunConfig, prices: Prices | None = None) -> Keyring:
    """Fresh keys as the configuration wants them; in a calibrated run, what stands for them.

    Args:
        config: of the run.
        prices: of a calibrated run's ciphertexts; None: they are measured.
    """
    if config.key_mode == "dkms" and config.clients < config.min_contributors:
        problem = f"is {config.min_contributors}, and the run has {config.clients} client(s): no sum would be decrypted"
        fix = f"use more clients, or set min_contributors={config.clients}, with which members can read each other"
        raise InvalidInput("min_contributors", problem, fix)
    shared, ahead, encrypts = (
        config.key_mode == "shared-key",
        config.randomness == "ahead",
        config.policy != "plaintext",
    )
    secret: DecryptionKey
    if config.crypto == "calibrated":
        if encrypts and prices is None:
            prices = measure_prices(config.profile, shared_key=shared, ahead=ahead)
        secret, ahead = TransparentKey(get_profile(config.profile)), False
    else:
        prices, secret = None, generate_keypair(config.profile)[1]
        if encrypts:
            (secret if shared else secret.public).encrypt([0])  # builds the tables, which workers inherit
    meter = Meter(prices)
    held = MeteredKey(secret, meter, ahead=ahead)
    server: KeyServer
    if shared:
        server = SharedKeyClients(held)
    else:
        server = KeyServer(held, rules=SumRules(config.min_contributors, config.quorum))
    return Keyring(server, held if shared else held.public, MeteredKey(secret.public, meter), meter, prices)
