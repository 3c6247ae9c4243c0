"""A key service behind HTTPS, with the ServerApp's own certificate."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sensecrypt.client.identity import read_identity
from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.errors import InvalidInput
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.updates import ReleasedSum

IDENTITY_VARIABLE = "SENSECRYPT_AGGREGATOR"  # names the identity file, in the environment of SuperLink


class Remote:
    """The wrapper's requests to a key service."""

    with_tags = False

    def __init__(self, address: str) -> None:
        """Read the identity file; connect at the first request."""
        place = os.environ.get(IDENTITY_VARIABLE, "")
        if not place:
            fix = "name this app's identity file there, where SuperLink is started"
            raise InvalidInput(f"${IDENTITY_VARIABLE}", "is not set", fix)
        identity = read_identity(Path(place))
        if identity.url.rstrip("/") != address.rstrip("/"):
            fix = f"pass {identity.url!r}, or name another identity file in ${IDENTITY_VARIABLE}"
            raise InvalidInput("key_service", f"is {address!r}, and {place} names {identity.url!r}", fix)
        self.address, self._identity = address, identity
        self._run, self._described = "", dict[str, Any]()

    def begin(self, run: str, size: int, profile: str, rules: ReleaseRules) -> EncryptionKey:
        """Register the run under this app's name."""
        with self._identity.connect() as service:
            self._described = service.register_run(
                run,
                size=size,
                profile=profile,
                members={},
                min_contributors=rules.min_contributors,
                aggregators=[str(service.about()["name"])],
                quorum=rules.quorum,
                release_to_aggregator=True,
            )
            self._run = run
            return service.public_key(run)

    def rules(self) -> ReleaseRules:
        """The rules of the run, as the service's policy restricts them."""
        names = ("min_contributors", "quorum", "largest_weight", "largest_ratio", "colluders", "fixed_groups")
        return ReleaseRules(**{name: self._described[name] for name in names})

    def register(self, round_: Round) -> tuple[bytes, bytes]:
        """Register the round; members fetch task and key themselves."""
        with self._identity.connect() as service:
            service.register_round(round_)
        return b"", b""

    def take_tag(self, tag: bytes, round_: Round, *, sender: int, examples: float) -> None:
        """Do nothing: members send their tags to the service."""

    def tags(self, round_: Round) -> Collection[int]:
        """The clients whose tags the service has."""
        with self._identity.connect() as service:
            found = service.tags(round_)
            if set(found) - set(self.names()):
                self._described = service.run(self._run)
            return found

    def names(self) -> Mapping[int, str]:
        """The certificate names of the clients that have joined."""
        return {int(client): name for client, name in (self._described.get("names") or {}).items()}

    def release(self, aggregate: bytes, round_: Round) -> ReleasedSum:
        """Have the sum released, and fetch it."""
        with self._identity.connect() as service:
            service.release(aggregate, round_)
            return service.released_sum(round_)
