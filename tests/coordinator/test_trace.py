"""How much code one round enters, how often a client asks the key service, and what a large fleet costs."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
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


def test_one_round_is_short_to_read(tmp_path):
    """Functions of ours, and files, that a round of the default preset on one machine enters."""
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
    files = {file for file, _ in entered}
    assert (len(entered), len(files)) <= (150, 28), sorted(Path(file).name for file in files)
    assert len(files) <= 28


@pytest.mark.parametrize("refresh", [False, True])
def test_a_client_asks_the_key_service_five_times_a_round_at_most(fleet, monkeypatch, refresh):
    asked: Counter[tuple[str, int]] = Counter()
    send = DkmsClient._send

    def counting(self, method, address, **more):
        asked[address.split("?")[0]] += 1
        by[id(self)].append(f"{method} {address}")
        return send(self, method, address, **more)

    by: dict[int, list[str]] = {}
    honest = DkmsClient.__init__

    def started(self, *arguments, **more):
        honest(self, *arguments, **more)
        by[id(self)] = []

    monkeypatch.setattr(DkmsClient, "__init__", started)
    monkeypatch.setattr(DkmsClient, "_send", counting)
    played = fleet(rounds=3, order_refresh=2 if refresh else 5)
    per_message: list[list[str]] = []

    def before(client, kind, message):
        per_message.append([kind])
        return message

    played.before = before
    played.play()
    rounds = [lines for lines in by.values() if any("/model/" in line and "receipt" in line for line in lines)]
    assert len(rounds) == 3 * played.config.clients
    assert max(map(len, rounds)) <= 5


def test_a_large_fleet_costs_the_coordinator_what_it_samples(tmp_path):
    """Memory of coordinator and key service together, of 60 and of 240 registered clients with six per round."""

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

    small, large = peak(60), peak(240)
    assert large < 1.5 * small
