"""What the operator allows, whatever anybody asks for: `policy.toml` in the service's folder."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.protocol.releaserules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT
from sensecrypt.tomlfile import read_toml, refuse_unknown


@dataclass(frozen=True)
class Policy:
    """The limits.

    Attributes:
        min_contributors: the fewest clients in a sum; a run may ask for more.
        quorum: the least part of a cluster's weight, and of its clients, in a sum; a run may ask for more.
        colluders: how many clients of a sum may give their values to the aggregator.
        largest_weight: the largest part that may be one client's of what is left of a sum without the `colluders`
            largest others: a larger one shows its model to them.
        largest_ratio: how many times the least weight in a sum the largest may be.
        groups: `any` clients are in a sum; or `fixed`: sums of a run tell no fewer than its min_contributors apart.
        max_parameters: the largest model.
        max_members: the most clients of a run.
        failures_per_round: how many sums that fail after decryption a round may have; then it is closed.
        failures_per_run: how many a run may have; then it is closed.
        releases_at_once: how many sums may wait for decryption, each holding its body in memory.
        decryptions_per_minute: of all aggregators together.
        rounds_per_minute: rounds and sums that one aggregator may register and submit, on average.
        requests_per_second: of one certificate, on average.
        burst: of one certificate, at once.
        body_seconds: how long a body may take to arrive.
        connections: at once, of peers with a certificate.
        connections_per_certificate: of these, with one certificate's name.
        handshakes: connections at once whose TLS handshake is not done.
        strangers: connections at once of peers without a certificate.
        strangers_per_address: of these, from one address.
        handshake_seconds: how long a TLS handshake may take.
        header_seconds: how long a request's header may take to arrive.
        write_seconds: how long a peer may take to accept the next 64 KiB of an answer.
        answer_megabytes: of models in memory at once, for answers that are being sent.
        lines_per_minute: audit lines about what one certificate is refused, or fetches again; further ones are counted.
        constant_time: whether decryption avoids memory accesses that depend on the secret key; slower.
        allow_insecure: whether profiles without security may be used; for tests.
        denied: names of certificates that are shut out, until they expire.
        release_to: names of aggregators that may register runs of their own, whose sums they are given: Flower apps.
    """

    min_contributors: int = 3
    quorum: float = 0.5
    colluders: int = COLLUDERS
    largest_weight: float = LARGEST_WEIGHT
    largest_ratio: float = LARGEST_RATIO
    groups: str = "any"
    max_parameters: int = 100_000_000
    max_members: int = 10_000
    failures_per_round: int = 4
    failures_per_run: int = 12
    releases_at_once: int = 4
    decryptions_per_minute: int = 60
    rounds_per_minute: int = 120
    requests_per_second: int = 50
    burst: int = 200
    body_seconds: int = 120
    connections: int = 4096
    connections_per_certificate: int = 16
    handshakes: int = 1024
    strangers: int = 64
    strangers_per_address: int = 16
    handshake_seconds: int = 5
    header_seconds: int = 10
    write_seconds: int = 20
    answer_megabytes: int = 512
    lines_per_minute: int = 10
    constant_time: bool = False
    allow_insecure: bool = False
    denied: tuple[str, ...] = ()
    release_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse limits that protect nothing, or let nothing through."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("allow_insecure", "constant_time"):
                if not isinstance(value, bool):
                    raise InvalidInput(field.name, f"is {value!r}", "write true or false")
            elif field.name == "groups":
                checks.choice(field.name, value, ("any", "fixed"))
            elif field.name == "quorum":
                checks.number(field.name, value, low=0.0, high=1.0, open_low=True)
            elif field.name == "largest_weight":
                checks.number(field.name, value, low=0.5, high=1.0)
            elif field.name == "largest_ratio":
                checks.number(field.name, value, low=1.0, high=1e9)
            elif field.name == "colluders":
                checks.whole(field.name, value, low=0, high=2**40)
            elif field.name in _NAMES:
                if not all(isinstance(name, str) for name in value):
                    raise InvalidInput(field.name, "are not all names", 'write a list such as ["phone-3"]')
            else:
                checks.whole(field.name, value, low=2 if field.name == "min_contributors" else 1, high=2**40)
        if self.min_contributors < self.colluders + 2:
            problem = f"is {self.min_contributors} where {self.colluders} may collude: that leaves a client alone"
            raise InvalidInput("min_contributors", problem, f"write at least {self.colluders + 2}, or fewer colluders")


_NAMES = ("denied", "release_to")
DEFAULT_TEXT = """\
# What this key service allows, whatever anybody asks for. Read at start.
min_contributors = 3          # the fewest clients in a sum; a run may ask for more
quorum = 0.5                  # the least part of a cluster's weight and clients in a sum; a run may ask for more
colluders = 1                 # clients of a sum that may give their values to the aggregator
largest_weight = 0.7          # the largest part that may be one client's of a sum without the largest others, as many
largest_ratio = 20            # how many times the least weight in a sum the largest may be
groups = "any"                # "fixed": sums of a run, taken together, tell no fewer than its min_contributors apart
max_parameters = 100_000_000  # the largest model
max_members = 10_000          # the most clients of a run
failures_per_round = 4        # sums that fail after decryption; then the round is closed
failures_per_run = 12         # of all its rounds; then the run is closed
releases_at_once = 4          # sums that may wait for decryption
decryptions_per_minute = 60   # of all aggregators together
rounds_per_minute = 120       # rounds and sums that one aggregator may register and submit, on average
requests_per_second = 50      # of one certificate, on average
burst = 200                   # of one certificate, at once
body_seconds = 120            # for a body to arrive
connections = 4096            # at once, of peers with a certificate
connections_per_certificate = 16
handshakes = 1024             # connections whose TLS handshake is not done
strangers = 64                # connections of peers without a certificate
strangers_per_address = 16
handshake_seconds = 5         # for a TLS handshake
header_seconds = 10           # for a request's header to arrive
write_seconds = 20            # for a peer to accept the next 64 KiB of an answer
answer_megabytes = 512        # of models in memory, for answers that are being sent
lines_per_minute = 10         # audit lines about what one certificate is refused, or fetches again; others are counted
constant_time = false         # decrypt without memory accesses that depend on the key; 1.4 times slower
allow_insecure = false        # profiles without security, for tests
denied = []                   # names of certificates that are shut out, until they expire
release_to = []               # names of aggregators that may register runs and are given their sums: Flower apps
"""


def read_policy(path: Path) -> Policy:
    """The policy in that file; what it does not name is as above."""
    settings = read_toml(path, otherwise="run: sensecrypt dkms init", example="burst = 200")
    refuse_unknown(settings, [field.name for field in fields(Policy)], "a policy")
    for key in _NAMES:
        if not isinstance(settings.get(key, []), list):
            raise InvalidInput(key, "is no list", 'write a list such as ["phone-3"]')
        settings[key] = tuple(settings.get(key, []))
    return Policy(**settings)
