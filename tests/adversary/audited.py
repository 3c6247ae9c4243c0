"""What the key service's audit log has of a fleet's run."""

from __future__ import annotations

from tests.transports.flower.conftest import LoopFleet


def released(played: LoopFleet) -> list[list[int]]:
    """The contributors of every sum of models that was decrypted and verified."""
    lines = [line for line in played.server.audit() if line["event"] == "decrypted" and line.get("run") == played.run]
    assert lines
    return [line["clients"] for line in lines if line["purpose"] == "model"]
