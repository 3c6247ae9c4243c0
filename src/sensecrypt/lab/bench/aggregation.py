"""An aggregator in a process that loads nothing else, to measure its memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from sensecrypt.crypto.publicfile import public_key
from sensecrypt.crypto.scheme import Ciphertexts
from sensecrypt.lab.bench.measure import peak_mb
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.messages import Upload
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import TagOffset
from sensecrypt.types import Mask


def aggregate_many(key: Mapping[str, Any], ciphertexts: Ciphertexts, clients: int, size: int) -> tuple[float, float]:
    """Add the uploads of so many clients, each made just before; returns seconds and the growth of peak memory in MB.

    `key` is as `publicfile.public_fields` returns it, `size` is the model's, and all uploads have the same ciphertexts.
    """
    public = public_key("the benchmark's key", dict(key))
    round_ = Round("bench", 0, 0, "model", size, public.profile, dict.fromkeys(range(clients), 1 / clients))
    everything = Mask.prefix(round_.blocks, size=size, block=round_.block)
    before = peak_mb()
    start = time.perf_counter()
    total = RoundSum(round_, public)
    for client in range(clients):
        upload = Upload(client, everything, ciphertexts, np.empty(0, dtype=np.int64), TagOffset())
        total.add(upload.to_bytes(round_), sender=client)
    total.close()
    return time.perf_counter() - start, peak_mb() - before
