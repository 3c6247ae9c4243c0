"""How long a message's ciphertexts are: polynomials of the model's last block that hold no value do not travel."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.errors import Rejected
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.envelope import parse_any, serialize
from sensecrypt.protocol.messages import Aggregate, Upload
from sensecrypt.types import Mask
from tests.protocol.test_round import CLIENTS, Cluster

SIZE = 8192 + 2049  # two blocks of ring-2048x4, two polynomials in the last
SHORTER = 2 * 2048 * 44 // 8


def masks(cluster: Cluster, blocks: list[bool]) -> list[Mask]:
    return [Mask(np.array(blocks), SIZE, cluster.round.block)] * len(cluster.models)


def ciphertexts(message: bytes, kind: str) -> np.ndarray:
    return parse_any(message, kind)[1]["ciphertexts"]


@pytest.mark.parametrize("blocks", [[True, True], [True, False], [False, True]])
def test_a_sum_is_exact_and_its_messages_are_as_short_as_its_values(blocks):
    cluster = Cluster("ring-2048x4", SIZE, blinded=True)
    encrypted = masks(cluster, blocks)
    expected = sum(blocks) * cluster.round.profile.ciphertext_bytes - SHORTER * blocks[-1]
    total = RoundSum(cluster.round, cluster.public)
    for client, each in enumerate(cluster.protect(encrypted)):
        assert ciphertexts(each.upload, "upload").size == expected
        total.add(each.upload, sender=client)
    assert ciphertexts(total.close().to_bytes(cluster.round), "aggregate").size == expected
    assert cluster.run(encrypted) == Cluster(size=SIZE).run([Mask.prefix(0, size=SIZE, block=15)] * CLIENTS)


@pytest.mark.parametrize("change", [-1, 1, SHORTER])
def test_other_lengths_are_refused(change):
    """Bytes behind the last value have no place where they could travel."""
    cluster = Cluster("ring-2048x4", SIZE, blinded=True)
    upload = cluster.protect(masks(cluster, [True, True]))[0].upload
    header, tensors = parse_any(upload, "upload")
    tensors["ciphertexts"] = np.resize(tensors["ciphertexts"], tensors["ciphertexts"].size + change)
    with pytest.raises(Rejected, match="bytes of ciphertexts"):
        Upload.from_bytes(serialize("upload", header, tensors), cluster.round)
    header["contributors"], header["common_prefix"] = "0,1", header["prefix"]
    del header["client"]
    with pytest.raises(Rejected, match="bytes of ciphertexts"):
        Aggregate.from_bytes(serialize("aggregate", header, {**tensors, "common": tensors["mask"]}), cluster.round)
