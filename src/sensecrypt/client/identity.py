"""The identity file of a client or aggregator of a fleet: its certificate, and the address of the key service.

url = "https://dkms.example:8443"
certificate = "client-0.crt"   # paths are relative to the file
key = "client-0.key"
authority = "ca.crt"
state = "state"                # folder for the files that it must not lose
cpus = 4                       # a client's device, if it reports it
bandwidth = 50                 # megabytes per second
least_share = 0.2              # of its model that a client encrypts; else it sends nothing
rest = "blinded"                # how a client sends what it does not encrypt; "plain": as the run says
clear_sensitivities = false    # whether it sends them so if a run asks for it: they reveal its labels
release_to_aggregator = false  # whether it takes part where the aggregator receives the sum, as in wrapped Flower apps
tell_accuracy = false          # whether it reports to the aggregator how good models are on its data

and a client's conditions, see `conditions`.
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
_TRIES = 9  # 100 s in all: as long as a key service may take to come back


@dataclass(frozen=True)
class Identity:
    """A client or aggregator of a fleet.

    Attributes:
        url: of the key service.
        certificate: its own.
        key: of the certificate.
        authority: that issued the certificates of the service and of all others.
        state: its own folder.
        cpus: of its device; None: as configured for the run.
        bandwidth: likewise.
        least_share: of the model, that a client encrypts; with less it sends nothing. None: a tenth, or 0 in a run that
            encrypts nothing and blinds everything.
        rest: `blinded`: a client blinds what it does not encrypt, in every run; `plain`: as the run says.
        clear_sensitivities: whether a client sends its sensitivities in the clear where a run asks for it.
        tell_accuracy: whether it reports to the aggregator how good models are on its own data.
        release_to_aggregator: whether it takes part in runs whose sums the aggregator receives, which has the model.
        conditions: of a client.
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
        """A connection to the key service with this identity, which tries again for a while."""
        from sensecrypt.keyservice.http.client import DkmsClient  # needs httpx, which a run on one machine does not

        return DkmsClient(
            self.url, certificate=self.certificate, key=self.key, authority=self.authority, tries=_TRIES, pause=0.2
        )

    def required_share(self, *, only_blinds: bool) -> float:
        """The least share of the model that must be encrypted, in a run that encrypts or one that only blinds."""
        usual = 0.0 if only_blinds else LEAST_SHARE
        return usual if self.least_share is None else self.least_share

    def require_app_run(self, described: Mapping[str, Any]) -> None:
        """Raise `Rejected` unless this client takes part in a run of a Flower app with this description."""
        if not described["release_to_aggregator"]:
            raise Rejected("the run is not of a Flower app: its sums are for its members")
        if not self.release_to_aggregator:
            fix = f"write release_to_aggregator = true into the identity file if the ServerApp may have it ({self.url})"
            raise Rejected(f"condition release_to_aggregator: the ServerApp would receive the sum; {fix}")
        if described["min_contributors"] < self.conditions.least_contributors:
            asked, own = described["min_contributors"], self.conditions.least_contributors
            raise Rejected(f"condition least_contributors: the run asks for {asked} in a sum, this client wants {own}")
        if self.conditions.fixed_groups and not described.get("fixed_groups", False):
            raise Rejected("condition fixed_groups: the run asks for sums of any groups, this client wants fixed ones")


def read_identity(path: Path) -> Identity:
    """The identity in that file."""
    settings = read_toml(path, otherwise="see docs/deployment.md", example='key = "client-0.key"')
    refuse_unknown(settings, _KEYS, f"an identity file ({path})")
    for name in ("url", *_PATHS):
        if not isinstance(settings.get(name), str):
            raise InvalidInput(f"{path}: {name}", "is missing or no text", f'write a line such as: {name} = "…"')
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
        problem = "is true where sketches are refused, and reveals more than they do"
        raise InvalidInput(f"{path}: clear_sensitivities", problem, "write false, or sketches = true")
    try:
        conditions = read_conditions(settings)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.argument}", error.problem, error.fix) from None
    return Identity(**{key: settings[key] for key in settings if key not in CONDITIONS}, conditions=conditions)
