"""What is left of a sum once those who collude have subtracted their parts."""

from __future__ import annotations

import pytest

from sensecrypt.protocol.releaserules import honest_share

WEIGHTS = {0: 0.8, 1: 0.0033, 2: 0.1967}


@pytest.mark.parametrize(
    ("client", "colluders", "share"),
    [(0, 0, 0.8), (0, 1, 0.8 / 0.8033), (0, 2, 1.0), (0, 9, 1.0), (1, 1, 0.0033 / 0.2), (2, 1, 0.1967 / 0.2)],
)
def test_a_client_s_share_without_the_largest_others(client, colluders, share):
    assert honest_share(WEIGHTS, client, colluders) == pytest.approx(share)


def test_even_weights():
    assert honest_share(dict.fromkeys(range(10), 0.1), 3, 2) == pytest.approx(1 / 8)
