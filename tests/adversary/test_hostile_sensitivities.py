"""A client that sends sensitivities of which the sum ranks nothing, signed for as the protocol asks."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.errors import Refused
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.protection import protect_map
from sensecrypt.protocol.round import address_of
from tests.keyservice.rounds import Played


def upload_with(played, round_, scores):
    """Everybody's sensitivities, client 3's replaced by these scores; the running sums with and without it."""
    with played.aggregator() as aggregator:
        public = aggregator.public_key(played.run)
    whole, honest = RoundSum(round_, public), RoundSum(round_, public)
    for client in round_.weights:
        protected = played.protect(round_, client)
        with played.client(client) as identity:
            if client == 3:
                seed = identity.task(address_of(round_)).seed
                protected = protect_map(scores, round_, client=3, key=public, seed=seed)
            else:
                honest.add(protected.upload, sender=client)
            identity.send_tag(protected.tag, round_)
        whole.add(protected.upload, sender=client)
    return whole.close(), honest.close()


@pytest.mark.parametrize("low", [-120.0, -60.0])
def test_sums_that_rank_nothing_are_refused_and_the_old_order_stays(strict, low):
    played = Played(strict, samples=dict.fromkeys(range(4), 10), min_contributors=3)
    played.play(played.round(0, purpose="sensitivity"))
    with played.client(0) as client:
        before = client.task(address_of(played.register(played.round(0)))).ranking.order
    hostile = played.register(played.round(1, purpose="sensitivity"))
    whole, honest = upload_with(played, hostile, np.full(played.size, low))
    with pytest.raises(Refused) as refusal:
        played.release(whole, hostile)
    assert refusal.value.code == "tags-mismatch"
    round_ = played.register(played.round(1))
    with played.client(0) as client:
        assert (client.task(address_of(round_)).ranking.order == before).all()
    assert played.release(honest, hostile).contributors == (0, 1, 2)  # without the one that spoils it, the sum ranks
    assert played.play(round_).contributors == (0, 1, 2, 3)
