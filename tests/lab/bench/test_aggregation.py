from __future__ import annotations

import numpy as np

from sensecrypt import generate_keypair
from sensecrypt.crypto.publicfile import public_fields
from sensecrypt.lab.bench.aggregation import aggregate_many
from sensecrypt.lab.bench.measure import in_own_process

SIZE = 124_534


def test_the_aggregators_memory_does_not_grow_with_the_number_of_clients():
    public, secret = generate_keypair()
    ciphertexts = secret.encrypt(np.zeros(SIZE, dtype=np.int64))
    few, many = (
        in_own_process(aggregate_many, public_fields(public), ciphertexts, clients, SIZE) for clients in (20, 400)
    )
    assert few.result > 0.5  # the sum itself was seen
    assert many.result <= 1.2 * few.result
