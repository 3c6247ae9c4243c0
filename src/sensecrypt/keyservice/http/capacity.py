"""How many connections the service may hold: fewer than there are descriptors, so that its own files can open."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from sensecrypt.errors import ServiceError
from sensecrypt.keyservice.http.policy import Policy

RESERVE = 128  # descriptors for the database, the log, key files, the vault, and the standard library
_LEAST = 64  # connections below which a service is of no use


@dataclass(frozen=True)
class Capacity:
    """The most connections of each kind at once.

    Attributes:
        handshakes: whose TLS handshake is not done.
        strangers: that have no certificate.
        strangers_per_address: of these, from one address.
        certified: that have one.
        per_certificate: of these, with one certificate's name.
    """

    handshakes: int
    strangers: int
    strangers_per_address: int
    certified: int
    per_certificate: int


def find_capacity(policy: Policy) -> Capacity:
    """Raise the limit on open files as far as it goes; the policy's limits, or less if there are fewer descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = policy.handshakes + policy.strangers + policy.connections + RESERVE
    limit = wanted if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return fit(policy, limit)


def fit(policy: Policy, descriptors: int) -> Capacity:
    """The policy's limits where `descriptors` can be open: a quarter for handshakes, a sixteenth for strangers."""
    free = descriptors - RESERVE
    if free < _LEAST:
        fix = f"allow at least {RESERVE + _LEAST} (ulimit -Hn, LimitNOFILE)"
        raise ServiceError("the limit on open files", f"is {descriptors}", fix)
    handshakes, strangers = min(policy.handshakes, free // 4), min(policy.strangers, free // 16)
    certified = min(policy.connections, free - handshakes - strangers)
    return Capacity(
        handshakes,
        strangers,
        min(policy.strangers_per_address, strangers),
        certified,
        min(policy.connections_per_certificate, certified),
    )
