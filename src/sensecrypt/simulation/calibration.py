"""Measures the cost of one ciphertext on this machine."""

from __future__ import annotations

from statistics import median

import numpy as np

from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.scheme import multiplying
from sensecrypt.profiles import Profile, get_profile
from sensecrypt.simulation.ahead import AheadKey
from sensecrypt.simulation.clock import CostModel
from sensecrypt.worktime import Cost, Operation

_REPEATS = 5
_ROWS: dict[Operation, int] = {"encrypt": 48, "add": 256, "decrypt": 16, "multiply": 64, "add_plain": 256}
_FACTOR = 2503  # a typical sample count of a client, used as its weight
_VALUES = 2**16  # for schemes with thousands of slots: so many values that the overhead per call is negligible


def measure_cost_model(profile: str | Profile, *, shared_key: bool = False, ahead: bool = False) -> CostModel:
    """Return the median seconds per ciphertext of each operation, measured on one core of this machine.

    Args:
        profile: the encryption profile.
        shared_key: whether clients encrypt with the secret key.
        ahead: whether clients compute their randomizers before the round.
    """
    chosen = get_profile(profile)
    public, secret = generate_keypair(chosen)
    key = secret if shared_key else public
    key.encrypt([0])  # builds the tables
    pooled = AheadKey(key) if ahead else None
    found: dict[Operation, float] = {}
    for operation, rows in _ROWS.items():
        if operation == "multiply" and not chosen.multiplies:
            continue
        count = chosen.slots * rows if chosen.slots < 1000 else max(chosen.slots, _VALUES)
        values = np.arange(count) % 997 - 498
        ciphertexts = public.encrypt(values)
        total, seconds = public.accumulator(len(ciphertexts)), []
        for _ in range(_REPEATS):
            cost, blocks = Cost(), len(ciphertexts)
            if pooled is not None and operation == "encrypt":
                pooled.make_ahead(blocks)
            with cost.of(operation, blocks):
                if operation == "encrypt":
                    (pooled or key).encrypt(values)
                elif operation == "add":
                    total.add(ciphertexts)
                elif operation == "multiply":
                    multiplying(public).multiply(ciphertexts, _FACTOR)
                elif operation == "add_plain":
                    public.add_plain(ciphertexts, values)
                else:
                    secret.decrypt(ciphertexts, count)
            seconds.append(cost.seconds[operation] / blocks)
        found[operation] = median(seconds)
    return CostModel(**found)
