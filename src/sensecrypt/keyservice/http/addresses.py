"""The HTTP addresses of the service, and the version of the protocol, for service and client."""

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
    """`url`, if it is the address of a key service, which uses TLS."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise InvalidInput("url", f"is {url!r}", "write https://host:port, such as https://dkms.example:8443")
    return url


def run_address(run: str) -> str:
    """The address of a run."""
    return RUN.format(run=run)


def round_address(round_: Round | RoundAddress) -> str:
    """The address of a round."""
    where = {"number": round_.number, "cluster": round_.cluster, "attempt": round_.attempt}
    return ROUND.format(run=round_.run, purpose=round_.purpose, **where)
