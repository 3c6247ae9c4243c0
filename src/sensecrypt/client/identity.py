"""The file that tells a party of a fleet where the key service is, and who it is itself.

url = "https://dkms.example:8443"
certificate = "client-0.crt"   # paths are relative to the file
key = "client-0.key"
authority = "ca.crt"
state = "state"                # where it keeps what it must not lose
cpus = 4                       # a client's device, if it wants to tell
bandwidth = 50                 # megabytes a second
least_share = 0.2              # of its model, which a client encrypts or else sends nothing
rest = "blinded"                # how a client sends what it does not encrypt; "plain": as the run says
clear_sensitivities = false    # whether it sends them so if a run asks for it: they tell its labels
release_to_aggregator = false  # whether it takes part where the aggregator is given the sum: Flower apps of one's own
tell_accuracy = false          # whether it tells the aggregator how good models are on its data: so do these

and a client's other conditions, which `conditions` lists.
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
    """Who somebody is in a fleet.

    Attributes:
        url: of the key service.
        certificate: the party's own.
        key: of the certificate.
        authority: who issued the service's certificate, and everybody's.
        state: folder of the party's own.
        cpus: of its device; None: as the run's configuration says.
        bandwidth: likewise.
        least_share: of the model; a client sends nothing of which less is encrypted. None: a tenth, or nothing at all
            in a run that encrypts nothing, if all of it is blinded.
        rest: `blinded`: a client blinds what it does not encrypt, whatever a run says; `plain`: if the run says so.
        clear_sensitivities: whether a client sends its sensitivities in the clear where a run asks for it.
        tell_accuracy: whether it tells the aggregator how good models are on its own data.
        release_to_aggregator: whether it takes part in runs whose sums the aggregator is given, which has the model.
        conditions: what else a client agrees to.
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
        """Talk to the key service as this identity, with patience."""
        from sensecrypt.keyservice.http.client import DkmsClient  # needs httpx, which a run on one machine does not

        return DkmsClient(
            self.url, certificate=self.certificate, key=self.key, authority=self.authority, tries=_TRIES, pause=0.2
        )

    def required_share(self, *, only_blinds: bool) -> float:
        """The least share of the model that must be encrypted, in a run that encrypts or one that only blinds."""
        usual = 0.0 if only_blinds else LEAST_SHARE
        return usual if self.least_share is None else self.least_share

    def require_app_run(self, told: Mapping[str, Any]) -> None:
        """Raise `Rejected` unless this client takes part in a run of which the key service tells that."""
        if not told["release_to_aggregator"]:
            raise Rejected("the run is no app's own: its sums are for its members")
        if not self.release_to_aggregator:
            fix = f"write release_to_aggregator = true into the identity file if the ServerApp may have it ({self.url})"
            raise Rejected(f"condition release_to_aggregator: the ServerApp would be given the sum; {fix}")
        if told["min_contributors"] < self.conditions.least_contributors:
            asked, own = told["min_contributors"], self.conditions.least_contributors
            raise Rejected(f"condition least_contributors: the run asks for {asked} in a sum, this client wants {own}")
        if self.conditions.fixed_groups and not told.get("fixed_groups", False):
            raise Rejected("condition fixed_groups: the run asks for sums of any groups, this client wants fixed ones")


def read_identity(path: Path) -> Identity:
    """The party in that file."""
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
        problem = "is true where sketches are refused, and tells more than they do"
        raise InvalidInput(f"{path}: clear_sensitivities", problem, "write false, or sketches = true")
    try:
        conditions = read_conditions(settings)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.argument}", error.problem, error.fix) from None
    return Identity(**{key: settings[key] for key in settings if key not in CONDITIONS}, conditions=conditions)
