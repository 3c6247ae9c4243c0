"""The identity file of a client or aggregator of a fleet: its certificate and the address of the key service.

url = "https://dkms.example:8443"
certificate = "client-0.crt"   # paths are relative to the file
key = "client-0.key"
authority = "ca.crt"
state = "state"                # folder of its persistent files
cpus = 4                       # processors of a client's device; optional
bandwidth = 50                 # megabytes per second of a client's device; optional
least_share = 0.2              # smallest encrypted share of its model; with less, a client sends nothing
rest = "blinded"               # how a client sends what it does not encrypt; "plain": as the run requests
clear_sensitivities = false    # whether it sends sensitivities in the clear on request: they reveal its labels
release_to_aggregator = false  # whether it takes part if the aggregator receives the sum, as in wrapped Flower apps
tell_accuracy = false          # whether it reports the accuracy of models on its data to the aggregator

A client's conditions are in the same file, see `conditions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sensecrypt import checks
from sensecrypt.client.conditions import KEYS as CONDITIONS
from sensecrypt.client.conditions import Conditions, read_conditions
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.tomlfile import read_toml, refuse_unknown

if TYPE_CHECKING:
    from sensecrypt.keyservice.http.client import DkmsClient

_PATHS = ("certificate", "key", "authority", "state")
_FLAGS = ("clear_sensitivities", "tell_accuracy", "release_to_aggregator")
_KEYS = ("url", *_PATHS, "cpus", "bandwidth", "least_share", "rest", *_FLAGS, *CONDITIONS)
LEAST_SHARE = 0.1
_TRIES = 9  # 100 s in total: a key service may take that long to restart


@dataclass(frozen=True)
class Identity:
    """A client or aggregator of a fleet.

    Attributes:
        url: the address of the key service.
        certificate: the file of its certificate.
        key: the file of the certificate's private key.
        authority: the certificate of the authority that issued all certificates.
        state: the folder of its persistent files.
        cpus: processors of its device; None: as configured for the run.
        bandwidth: megabytes per second of its device; None: as configured for the run.
        least_share: the smallest share of the model that a client encrypts; with less it sends nothing. None: a tenth,
            or 0 in a run that encrypts nothing and blinds everything.
        rest: `blinded`: a client blinds what it does not encrypt, in every run; `plain`: as the run requests.
        clear_sensitivities: whether a client sends its sensitivities in the clear if a run requests it.
        tell_accuracy: whether it reports the accuracy of models on its own data to the aggregator.
        release_to_aggregator: whether it takes part in runs in which the aggregator receives sums and has the model.
        conditions: a client's conditions.
    """

    url: str
    certificate: Path
    key: Path
    authority: Path
    state: Path
    cpus: float | None = None
    bandwidth: float | None = None
    least_share: float | None = None
    rest: str = "blinded"
    clear_sensitivities: bool = False
    tell_accuracy: bool = False
    release_to_aggregator: bool = False
    conditions: Conditions = field(default_factory=Conditions)

    def connect(self) -> DkmsClient:
        """Return a connection to the key service with this identity; it retries failed requests for 100 s."""
        from sensecrypt.keyservice.http.client import DkmsClient  # needs httpx, which runs on one machine do not need

        return DkmsClient(
            self.url, certificate=self.certificate, key=self.key, authority=self.authority, tries=_TRIES, pause=0.2
        )

    def required_share(self, *, only_blinds: bool) -> float:
        """Return the smallest share of the model that must be encrypted; runs that only blind have another default."""
        usual = 0.0 if only_blinds else LEAST_SHARE
        return usual if self.least_share is None else self.least_share

    def require_app_run(self, described: Mapping[str, Any]) -> None:
        """Raise `Rejected` unless this client takes part in a run of a Flower app with this description."""
        if not described["release_to_aggregator"]:
            raise Rejected("the run is not of a Flower app: it releases sums to its members only")
        if not self.release_to_aggregator:
            fix = f"write release_to_aggregator = true into the identity file if the ServerApp may have it ({self.url})"
            raise Rejected(f"condition release_to_aggregator: the ServerApp would receive the sum; {fix}")
        if described["min_contributors"] < self.conditions.least_contributors:
            asked, own = described["min_contributors"], self.conditions.least_contributors
            problem = f"the run asks for {asked} in a sum, this client requires {own}"
            raise Rejected(f"condition least_contributors: {problem}")
        if self.conditions.fixed_groups and not described.get("fixed_groups", False):
            problem = "the run asks for sums of any groups, this client requires fixed groups"
            raise Rejected(f"condition fixed_groups: {problem}")


def read_identity(path: Path) -> Identity:
    """Return the identity in a file."""
    settings = read_toml(path, otherwise="see docs/deployment.md", example='key = "client-0.key"')
    refuse_unknown(settings, _KEYS, f"an identity file ({path})")
    for name in ("url", *_PATHS):
        if not isinstance(settings.get(name), str):
            raise InvalidInput(f"{path}: {name}", "is missing or not text", f'write a line such as: {name} = "…"')
    for name in _PATHS:
        settings[name] = path.parent / settings[name]
    for name in ("cpus", "bandwidth"):
        if name in settings:
            settings[name] = checks.number(f"{path}: {name}", settings[name], low=0.0, open_low=True)
    if "least_share" in settings:
        settings["least_share"] = checks.number(f"{path}: least_share", settings["least_share"], low=0.0, high=1.0)
    if "rest" in settings:
        checks.choice(f"{path}: rest", settings["rest"], ("blinded", "plain"))
    for name in _FLAGS:
        if not isinstance(settings.get(name, False), bool):
            raise InvalidInput(f"{path}: {name}", f"is {settings[name]!r}", "write true or false")
    if settings.get("clear_sensitivities") and settings.get("sketches") is False:
        problem = "is true, but sketches, which reveal less, are refused"
        raise InvalidInput(f"{path}: clear_sensitivities", problem, "write false, or sketches = true")
    try:
        conditions = read_conditions(settings)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.argument}", error.problem, error.fix) from None
    return Identity(**{key: settings[key] for key in settings if key not in CONDITIONS}, conditions=conditions)
