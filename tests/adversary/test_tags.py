"""A curious key server that guesses a client's values: the client's tags do not confirm the guess."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sensecrypt import Mask
from sensecrypt.errors import Rejected
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.messages import Aggregate, Tag, Upload
from sensecrypt.protocol.protection import ProtectedUpdate, model_format, protect_model
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import PRIME, TagOffset, mac_tag
from tests.crypto.conftest import keypair

SIZE, CLIENTS = 100, 4


class Fleet:
    """Four clients, two of which update nothing, and some of whose blocks are encrypted."""

    def __init__(self, *, factors: bool = False) -> None:
        weights = {client: (client + 1) / 10 for client in range(CLIENTS)}
        counts = {client: client + 1 for client in range(CLIENTS)} if factors else None
        profile = get_profile("paillier-2048-scalar" if factors else "insecure-test")
        self.public, self.secret = keypair(profile.name)
        self.round = Round("test", 0, 0, "model", SIZE, profile, weights, factors=counts)
        self.server = KeyServer(self.secret)
        self.seed = self.server.tag_seed(self.round)
        self.blinded = not factors

    def update(self, client: int) -> np.ndarray:
        return np.zeros(SIZE) if client % 2 else np.full(SIZE, 0.25)

    def mask(self, client: int) -> Mask:
        return Mask.prefix(client % 3, size=SIZE, block=self.round.block)

    def protect(self, client: int) -> ProtectedUpdate:
        arguments = {"client": client, "key": self.public, "seed": self.seed, "blinded": self.blinded}
        return protect_model(self.update(client), self.mask(client), self.round, **arguments)

    def collect(self) -> Aggregate:
        total = RoundSum(self.round, self.public)
        for client in range(CLIENTS):
            protected = self.protect(client)
            total.add(protected.upload, sender=client)
            self.server.take_tag(protected.tag, self.round, sender=client)
        return total.close()


@pytest.mark.parametrize("client", range(CLIENTS))
def test_the_right_guess_does_not_match_the_tags(client):
    fleet = Fleet()
    values = model_format(fleet.round).encode(fleet.update(client), fleet.round.share(client))
    encrypted = np.where(fleet.mask(client).to_array(), values, 0)
    tags = Tag.from_bytes(fleet.protect(client).tag, fleet.round)
    assert tags.value != mac_tag(values, fleet.seed)
    assert tags.encrypted != mac_tag(encrypted, fleet.seed)


def test_tags_of_equal_values_differ_and_fill_the_range():
    fleet = Fleet()
    tags = [Tag.from_bytes(fleet.protect(1).tag, fleet.round) for _ in range(40)]  # an update of zeros
    numbers = [*(each.value for each in tags), *(each.encrypted for each in tags)]
    assert len(set(numbers)) == 80
    assert PRIME / 3 < np.mean(numbers) < PRIME * 2 / 3
    assert all(0 <= each < PRIME for each in numbers)


def test_only_the_aggregator_can_take_a_clients_blinding_off():
    fleet = Fleet()
    protected = fleet.protect(2)
    tags, upload = Tag.from_bytes(protected.tag, fleet.round), Upload.from_bytes(protected.upload, fleet.round)
    values = model_format(fleet.round).encode(fleet.update(2), fleet.round.share(2))
    assert (tags.value - upload.tag_offset.whole) % PRIME == mac_tag(values, fleet.seed)
    assert str(upload.tag_offset.whole) not in repr(upload)


@pytest.mark.parametrize("factors", [False, True], ids=["clients multiply", "the aggregator multiplies"])
def test_sums_verify_with_the_sum_of_the_blinding_values_and_with_no_other(factors):
    fleet = Fleet(factors=factors)
    aggregate = fleet.collect()
    wrong = [aggregate.tag_offset.plus(TagOffset(1, 0)), TagOffset()]
    if not factors:
        wrong.append(aggregate.tag_offset.plus(TagOffset(0, 1)))
    for tag_offset in wrong:
        with pytest.raises(Rejected, match="tags"):
            fleet.server.release(replace(aggregate, tag_offset=tag_offset).to_bytes(fleet.round), fleet.round)
    released = fleet.server.release(aggregate.to_bytes(fleet.round), fleet.round)
    mean = model_format(fleet.round).decode(released.values, released.weight)
    assert mean == pytest.approx(np.full(SIZE, 0.1))


def test_parts_of_a_sum_add_their_blinding_values():
    fleet = Fleet()
    parts = [RoundSum(fleet.round, fleet.public) for _ in range(2)]
    for client in range(CLIENTS):
        protected = fleet.protect(client)
        parts[client % 2].add(protected.upload, sender=client)
        fleet.server.take_tag(protected.tag, fleet.round, sender=client)
    parts[0].absorb(parts[1])
    assert fleet.server.release(parts[0].close().to_bytes(fleet.round), fleet.round).contributors == (0, 1, 2, 3)
