"""When a cluster's importance order is made anew."""

from __future__ import annotations

import pytest

from sensecrypt.config import make_config
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

SMALL = {
    "dataset": "digits",
    "clients": 4,
    "partition": "iid",
    "clustering": "none",
    "profile": "insecure-test",
    "rounds": 4,
    "workers": 1,
    "order_refresh": 2,
}


def orders(folder, **settings) -> set[int]:
    """The rounds in which clients sent sensitivities, besides the set-up."""
    result = run_local(make_config({**SMALL, **settings}), RunFolder(folder))
    return {record.round for record in result.played if record.order_blocks}


@pytest.mark.parametrize(
    ("settings", "made"),
    [
        ({"budget": "deadline", "grace": 60.0}, set()),  # everything is encrypted: an order decides nothing
        ({"budget": "deadline", "grace": 0.0, "slack": 0.0}, {1}),
        ({"budget": "paper", "cpus": [[8, 4, 2, 1]]}, {1}),
        ({"budget": "deadline", "grace": 60.0, "objective": "balance"}, {1}),
    ],
)
def test_orders_are_renewed_unless_all_clients_encrypt_everything(tmp_path, settings, made):
    assert orders(tmp_path, **settings) == made
