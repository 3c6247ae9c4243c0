"""The folder of a fleet: what is where, what it was made as, and who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sensecrypt import checks
from sensecrypt.errors import InvalidInput, ServiceError
from sensecrypt.files import write_whole

VERSION = 1
HOST = "127.0.0.1"
AGGREGATOR = "aggregator"
_MADE = "fleet.json"
_ANOTHER = "choose a new folder, or one that `sensecrypt fleet up` made"


@dataclass(frozen=True)
class Description:
    """What `fleet.json` tells.

    Attributes:
        clients: how many SuperNodes.
        tls: whether SuperLink has a certificate, and SuperNodes have keys.
        port: SuperLink's; the key service has the next one, then come the SuperNodes; 0: never started.
        pids: of the parts, by name, as long as the fleet is up.
        version: of the folder.
    """

    clients: int
    tls: bool
    port: int = 0
    pids: Mapping[str, int] = field(default_factory=dict)
    version: int = VERSION

    def __post_init__(self) -> None:
        """Refuse what is no fleet."""
        checks.whole("clients", self.clients, low=2, high=1000)

    @property
    def nodes(self) -> list[str]:
        """The names of the SuperNodes."""
        return [f"node-{number}" for number in range(self.clients)]

    @property
    def members(self) -> list[str]:
        """The names of the clients' certificates, in the order of their numbers."""
        return [f"client-{number}" for number in range(self.clients)]

    @property
    def ports(self) -> dict[str, int]:
        """The port of each part."""
        return {name: self.port + offset for offset, name in enumerate(("superlink", "dkms", *self.nodes))}

    @property
    def dkms_url(self) -> str:
        """Where the key service is."""
        return f"https://{HOST}:{self.ports['dkms']}"

    @property
    def superlink(self) -> str:
        """Where SuperLink is."""
        return f"{HOST}:{self.ports['superlink']}"


@dataclass(frozen=True)
class FleetFolder:
    """Where everything of a fleet is."""

    path: Path

    @property
    def pki(self) -> Path:
        """The certificates, and the authority that issued them."""
        return self.path / "pki"

    @property
    def dkms(self) -> Path:
        """The key service's folder."""
        return self.path / "dkms"

    @property
    def passphrase(self) -> Path:
        """The key service's passphrase, readable by whoever started the fleet."""
        return self.path / "passphrase"

    @property
    def database(self) -> Path:
        """SuperLink's state: registered nodes, runs."""
        return self.path / "superlink" / "state.db"

    @property
    def flower_home(self) -> Path:
        """SuperLink's and the `flwr` command's FLWR_HOME."""
        return self.path / "flwr"

    @property
    def commands(self) -> Path:
        """Commands that SuperNodes find before Flower's."""
        return self.path / "bin"

    def log(self, part: str) -> Path:
        """What a part of the fleet says."""
        return self.path / "logs" / f"{part}.log"

    def certificate(self, name: str) -> tuple[Path, Path, Path]:
        """Certificate, key and authority of a party."""
        return self.pki / f"{name}.crt", self.pki / f"{name}.key", self.pki / "ca.crt"

    def node_key(self, node: str) -> Path:
        """The key that a SuperNode is known by; its public half has `.pub` added."""
        return self.path / "node-keys" / node

    def identity(self, name: str) -> Path:
        """The identity file of the aggregator or of a client."""
        return self.path / "roles" / name / ("aggregator.toml" if name == AGGREGATOR else "client.toml")

    def node_home(self, node: str) -> Path:
        """A SuperNode's own FLWR_HOME: in a shared one, nodes run apps that another node has half installed."""
        return self.path / "roles" / node.replace("node-", "client-") / "flwr"

    def run(self, run: str) -> Path:
        """Where the aggregator keeps a run."""
        return self.identity(AGGREGATOR).parent / "state" / run

    def app(self, run: str) -> Path:
        """The Flower app that plays a run."""
        return self.path / "app" / run

    def exists(self) -> bool:
        """Whether a fleet is here."""
        return (self.path / _MADE).is_file()

    def refuse_another(self) -> None:
        """Raise if something else than a fleet is here."""
        if self.path.exists() and not self.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise ServiceError(str(self.path), "holds something else", _ANOTHER)

    def read(self) -> Description:
        """What the fleet was made as."""
        try:
            fields: dict[str, Any] = json.loads((self.path / _MADE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            fix = f"make one with: sensecrypt fleet up --folder {self.path} --clients 4"
            raise ServiceError(str(self.path), "holds no fleet", fix) from None
        except (OSError, ValueError) as error:
            raise ServiceError(str(self.path / _MADE), f"cannot be read ({error})", _ANOTHER) from None
        if not isinstance(fields, dict) or fields.get("version") != VERSION:
            raise ServiceError(str(self.path), "is a fleet of another version", "use the version that made it")
        try:
            return Description(**fields)
        except (TypeError, InvalidInput):
            raise ServiceError(str(self.path / _MADE), "is damaged", _ANOTHER) from None

    def write(self, description: Description) -> None:
        """Replace what `read` tells."""
        write_whole(self.path / _MADE, json.dumps(asdict(description), indent=1).encode())

    def forget_pids(self) -> None:
        """Note that nothing runs any more."""
        self.write(replace(self.read(), pids={}))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder: two fleets on one state would get in each other's way."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ServiceError(
                    str(self.path), "has its fleet up already", "use that one, or end it first"
                ) from None
            yield
        finally:
            os.close(handle)

    def refuse_unless_up(self) -> Description:
        """What the fleet is, if it is up."""
        description = self.read()
        try:
            with self.held():
                pass
        except ServiceError:
            return description
        fix = f"start it, in another terminal: sensecrypt fleet up --folder {self.path}"
        raise ServiceError(str(self.path), "has no fleet that is up", fix)
