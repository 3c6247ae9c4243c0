"""What service and client must agree on besides the messages: addresses, and the version that both speak."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from sensecrypt.errors import InvalidInput
from sensecrypt.protocol.round import Round

PROTOCOL = "1"
PROTOCOL_HEADER = "SenseCrypt-Protocol"
MESSAGE_TYPE = "application/octet-stream"

RUN = "/v1/runs/{run}"
ROUND = RUN + "/rounds/{number}/clusters/{cluster}/{purpose}/{attempt}"


@dataclass(frozen=True)
class Place:
    """Which round a request is about."""

    run: str
    number: int
    cluster: int
    purpose: str
    attempt: int

    @property
    def round(self) -> tuple[str, int, int, str]:
        """Whatever the attempt."""
        return self.run, self.number, self.cluster, self.purpose

    @property
    def all(self) -> tuple[str, int, int, str, int]:
        """With the attempt."""
        return (*self.round, self.attempt)


def place_of(round_: Round) -> Place:
    """Where a round is kept."""
    return Place(round_.run, round_.number, round_.cluster, round_.purpose, round_.attempt)


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


def round_address(round_: Round | Place) -> str:
    """Where a round is."""
    return ROUND.format(
        run=round_.run,
        number=round_.number,
        cluster=round_.cluster,
        purpose=round_.purpose,
        attempt=round_.attempt,
    )
