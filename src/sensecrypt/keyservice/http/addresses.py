"""What service and client must agree on besides the messages: addresses, and the version that both speak."""

from __future__ import annotations

from urllib.parse import urlsplit

from sensecrypt.errors import InvalidInput
from sensecrypt.protocol.round import Round, RoundAddress

PROTOCOL = "1"
PROTOCOL_HEADER = "SenseCrypt-Protocol"
MESSAGE_TYPE = "application/octet-stream"

RUN = "/v1/runs/{run}"
ROUND = RUN + "/rounds/{number}/clusters/{cluster}/{purpose}/{attempt}"


def check_url(url: str) -> str:
    """The address of a key service: there is none without TLS."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise InvalidInput("url", f"is {url!r}", "write https://host:port, such as https://dkms.example:8443")
    return url


def run_address(run: str) -> str:
    """Where a run is."""
    return RUN.format(run=run)


def round_address(round_: Round | RoundAddress) -> str:
    """Where a round is."""
    return ROUND.format(
        run=round_.run,
        number=round_.number,
        cluster=round_.cluster,
        purpose=round_.purpose,
        attempt=round_.attempt,
    )
