"""What the operator allows, whatever a request asks for: `policy.toml` in the service's folder."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.protocol.releaserules import COLLUDERS, LARGEST_RATIO, LARGEST_WEIGHT
from sensecrypt.tomlfile import read_toml, refuse_unknown


def _limit(default: object, meaning: str, **bounds: object) -> Any:
    """A field of `Policy`: its default, its comment in the file, and its bounds as `checks` takes them."""
    return field(default=default, metadata={"meaning": meaning, "bounds": bounds or {"low": 1, "high": 2**40}})


@dataclass(frozen=True)
class Policy:
    """The operator's limits. `sensecrypt dkms init` writes them, with their meanings, to `policy.toml`."""

    min_contributors: int = _limit(3, "fewest clients in a sum; a run may ask for more", low=2, high=2**40)
    quorum: float = _limit(
        0.5, "least part of a cluster's weight and clients in a sum; a run may ask for more", low=0.0, high=1.0
    )
    colluders: int = _limit(
        COLLUDERS, "clients of a sum that may give their values to the aggregator", low=0, high=2**40
    )
    largest_weight: float = _limit(
        LARGEST_WEIGHT, "largest part of a sum without its `colluders` largest others that is one client's", low=0.5
    )
    largest_ratio: float = _limit(
        LARGEST_RATIO, "how many times the least weight in a sum the largest may be", low=1.0, high=1e9
    )
    groups: str = _limit(
        "any", '"fixed": the released sums of a run, combined, isolate no fewer than its min_contributors'
    )
    max_parameters: int = _limit(100_000_000, "largest model")
    max_members: int = _limit(10_000, "most clients of a run")
    failures_per_round: int = _limit(4, "sums that may fail after decryption; then the round is closed")
    failures_per_run: int = _limit(12, "the same over all rounds; then the run is closed")
    releases_at_once: int = _limit(4, "sums that may wait for decryption, each in memory")
    decryptions_per_minute: int = _limit(60, "of all aggregators together")
    rounds_per_minute: int = _limit(120, "rounds and sums that one aggregator may register and submit, on average")
    requests_per_second: int = _limit(50, "of one certificate, on average")
    burst: int = _limit(200, "of one certificate, at once")
    body_seconds: int = _limit(120, "for a body to arrive")
    connections: int = _limit(4096, "at once, of peers with a certificate")
    connections_per_certificate: int = _limit(16, "of these, with one certificate's name")
    handshakes: int = _limit(1024, "connections at once whose TLS handshake is not done")
    strangers: int = _limit(64, "connections at once of peers without a certificate")
    strangers_per_address: int = _limit(16, "of these, from one address")
    handshake_seconds: int = _limit(5, "for a TLS handshake")
    header_seconds: int = _limit(10, "for a request's header to arrive")
    write_seconds: int = _limit(20, "for a peer to accept the next 64 KiB of an answer")
    answer_megabytes: int = _limit(512, "of models in memory, for answers that are being sent")
    lines_per_minute: int = _limit(
        10, "audit lines about one certificate's refusals and repeated fetches; further ones are counted"
    )
    constant_time: bool = _limit(False, "decrypt without memory accesses that depend on the key; 1.4 times slower")
    allow_insecure: bool = _limit(False, "allow profiles without security, for tests")
    denied: tuple[str, ...] = _limit((), "names of certificates that are refused, until they expire")
    release_to: tuple[str, ...] = _limit(
        (), "names of aggregators that may register runs and receive their sums: Flower apps"
    )

    def __post_init__(self) -> None:
        """Refuse values of a wrong type or outside their bounds."""
        for each in fields(self):
            value, bounds = getattr(self, each.name), each.metadata["bounds"]
            if isinstance(each.default, bool):
                if not isinstance(value, bool):
                    raise InvalidInput(each.name, f"is {value!r}", "write true or false")
            elif isinstance(each.default, tuple):
                if not all(isinstance(name, str) for name in value):
                    raise InvalidInput(each.name, "are not all names", 'write a list such as ["phone-3"]')
            elif isinstance(each.default, str):
                checks.choice(each.name, value, ("any", "fixed"))
            elif isinstance(each.default, float):
                checks.number(each.name, value, **{"high": 1.0, "open_low": each.name == "quorum", **bounds})
            else:
                checks.whole(each.name, value, **bounds)
        if self.min_contributors < self.colluders + 2:
            problem = f"is {self.min_contributors} where {self.colluders} may collude: that isolates a client"
            raise InvalidInput("min_contributors", problem, f"write at least {self.colluders + 2}, or fewer colluders")


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return f'"{value}"' if isinstance(value, str) else f"{value:_}"


DEFAULT_TEXT = "# What this key service allows, whatever a request asks for. Read at start.\n" + "".join(
    f"{f'{each.name} = {_toml(each.default)}':29} # {each.metadata['meaning']}\n" for each in fields(Policy)
)


def read_policy(path: Path) -> Policy:
    """The policy in that file; settings that it does not name have their defaults."""
    settings = read_toml(path, otherwise="run: sensecrypt dkms init", example="burst = 200")
    refuse_unknown(settings, [each.name for each in fields(Policy)], "a policy")
    for each in fields(Policy):
        if isinstance(each.default, tuple) and each.name in settings:
            if not isinstance(settings[each.name], list):
                raise InvalidInput(each.name, "is no list", 'write a list such as ["phone-3"]')
            settings[each.name] = tuple(settings[each.name])
    return Policy(**settings)
