"""What service and client must agree on besides the messages: addresses, and the version that both speak."""

from __future__ import annotations

from sensecrypt.protocol.round import Round

PROTOCOL = "1"
PROTOCOL_HEADER = "SenseCrypt-Protocol"
MESSAGE_TYPE = "application/octet-stream"

RUN = "/v1/runs/{run}"
ROUND = RUN + "/rounds/{number}/clusters/{cluster}/{purpose}/{attempt}"


def run_address(run: str) -> str:
    """Where a run is."""
    return RUN.format(run=run)


def round_address(round_: Round) -> str:
    """Where a round is."""
    return ROUND.format(
        run=round_.run,
        number=round_.number,
        cluster=round_.cluster,
        purpose=round_.purpose,
        attempt=round_.attempt,
    )
