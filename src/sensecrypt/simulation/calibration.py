"""What one ciphertext costs on this machine, measured on real ones."""

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
_FACTOR = 2503  # samples of a client: an odd number of 12 bits
_VALUES = 2**16  # of schemes with thousands of values per ciphertext: enough that a call costs little beside them


def measure_cost_model(profile: str | Profile, *, shared_key: bool = False, ahead: bool = False) -> CostModel:
    """What one ciphertext costs on one core of this machine, by operation: medians over real ones.

    Args:
        profile: of the encryption.
        shared_key: whether clients encrypt with the secret key.
        ahead: whether their randomness is made before.
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
