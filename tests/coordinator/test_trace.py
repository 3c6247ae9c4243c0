"""How much code one round enters, how often a client asks the key service, and what a large fleet costs."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import pytest

import sensecrypt
from sensecrypt.config import make_config
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local
from tests.transports.flower.conftest import dkms, fleet, pki

__all__ = ["dkms", "fleet", "pki"]
ROOT = str(Path(sensecrypt.__file__).parent)
PATH = {"coordinator", "client", "protocol", "keyservice", "transports", "runs", "simulation"}


def test_a_round_enters_no_more_code_than_it_did(tmp_path):
    """Functions of ours, and files, that a round of the default preset on one machine enters.

    Counted twice: whole, and without the paper's mathematics, cryptography, models, policies and vocabulary.
    """
    config = make_config(
        {"dataset": "digits", "clients": 4, "partition": "iid", "clustering": "none", "rounds": 2, "workers": 1}
    )
    entered: set[tuple[str, str]] = set()

    def trace(frame, event, _argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            entered.add((code.co_filename, code.co_qualname))

    def after(number, *_):
        sys.setprofile(trace if number == 0 else None)

    try:
        run_local(config, RunFolder(tmp_path / "run"), on_round=after)
    finally:
        sys.setprofile(None)
    assert len(entered) <= 325
    assert len({file for file, _ in entered}) <= 61
    path = [(file, name) for file, name in entered if file.removeprefix(ROOT).split("/")[1] in PATH]
    assert len(path) <= 201
    assert len({file for file, _ in path}) <= 34


@pytest.mark.parametrize(("refresh", "most"), [(5, 4), (2, 5)])
def test_a_client_asks_the_key_service_five_times_a_round_at_most(fleet, monkeypatch, refresh, most):
    """Per message of a round; four without a new order."""
    sent: dict[DkmsClient, list[str]] = {}
    send = DkmsClient._send

    def counting(self, method, address, **more):
        sent.setdefault(self, []).append(f"{method} {address}")
        return send(self, method, address, **more)

    monkeypatch.setattr(DkmsClient, "_send", counting)
    played = fleet(rounds=3, order_refresh=refresh)
    played.play()
    rounds = [lines for lines in sent.values() if any(line.endswith("/model/0/tag") for line in lines)]
    assert len(rounds) == 3 * played.config.problem.clients
    assert max(map(len, rounds)) == most


def test_a_large_fleet_costs_the_coordinator_what_it_samples(tmp_path):
    """A registered client that is not sampled takes a few kilobytes of coordinator and key service, no model."""

    def peak(clients: int) -> int:
        settings = {"clients": clients, "sample": 6, "rounds": 3, "partition": "iid", "clustering": "none"}
        config = make_config(
            {"dataset": "digits", "profile": "insecure-test", "workers": 1, "policy": "plaintext", **settings}
        )
        highest = []

        def look(number, *_):
            if number:
                highest.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()

        tracemalloc.start()
        try:
            run_local(config, RunFolder(tmp_path / str(clients)), on_round=look)
        finally:
            tracemalloc.stop()
        return max(highest)

    assert (peak(240) - peak(60)) / 180 < 4096
