"""The folder of a fleet: its layout, its description, and its lock."""

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

VERSION = 2
HOST = "127.0.0.1"
AGGREGATOR = "aggregator"
_MADE = "fleet.json"
_ANOTHER = "choose a new folder, or one that `sensecrypt fleet up` made"


@dataclass(frozen=True)
class Description:
    """The contents of `fleet.json`.

    Attributes:
        clients: the number of SuperNodes.
        tls: whether SuperLink has a certificate, and SuperNodes have keys.
        port: of SuperLink, followed by those of the key service and of the SuperNodes; 0: never started.
        pids: of the parts by name, while the fleet is up.
        version: of the folder.
    """

    clients: int
    tls: bool
    port: int = 0
    pids: Mapping[str, int] = field(default_factory=dict)
    version: int = VERSION

    def __post_init__(self) -> None:
        """Check the number of clients."""
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
        """The address of the key service."""
        return f"https://{HOST}:{self.ports['dkms']}"

    @property
    def superlink(self) -> str:
        """The address of SuperLink."""
        return f"{HOST}:{self.ports['superlink']}"


@dataclass(frozen=True)
class FleetFolder:
    """The paths of a fleet's files."""

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
        """SuperLink's state: registered nodes and runs."""
        return self.path / "superlink" / "state.db"

    @property
    def flower_home(self) -> Path:
        """SuperLink's and the `flwr` command's FLWR_HOME."""
        return self.path / "flwr"

    def log(self, part: str) -> Path:
        """The output of a part of the fleet."""
        return self.path / "logs" / f"{part}.log"

    def certificate(self, name: str) -> tuple[Path, Path, Path]:
        """Certificate, key and authority of a server, an admin, the aggregator or a client."""
        return self.pki / f"{name}.crt", self.pki / f"{name}.key", self.pki / "ca.crt"

    def node_key(self, node: str) -> Path:
        """The private key of a SuperNode; its public key has `.pub` added."""
        return self.path / "node-keys" / node

    def identity(self, name: str) -> Path:
        """The identity file of the aggregator or of a client."""
        return self.path / "identities" / name / ("aggregator.toml" if name == AGGREGATOR else "client.toml")

    def node_home(self, node: str) -> Path:
        """A SuperNode's own FLWR_HOME; in a shared one, a node may run an app while another one installs it."""
        return self.path / "identities" / node.replace("node-", "client-") / "flwr"

    def run(self, run: str) -> Path:
        """The aggregator's folder of a run."""
        return self.identity(AGGREGATOR).parent / "state" / run

    def app(self, run: str) -> Path:
        """The Flower app of a run."""
        return self.path / "app" / run

    def exists(self) -> bool:
        """Whether the folder has a fleet."""
        return (self.path / _MADE).is_file()

    def refuse_another(self) -> None:
        """Raise if the folder has anything other than a fleet."""
        if self.path.exists() and not self.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise ServiceError(str(self.path), "has other files", _ANOTHER)

    def read(self) -> Description:
        """The fleet's description."""
        try:
            fields: dict[str, Any] = json.loads((self.path / _MADE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            fix = f"make one with: sensecrypt fleet up --folder {self.path} --clients 4"
            raise ServiceError(str(self.path), "has no fleet", fix) from None
        except (OSError, ValueError) as error:
            raise ServiceError(str(self.path / _MADE), f"cannot be read ({error})", _ANOTHER) from None
        if not isinstance(fields, dict) or fields.get("version") != VERSION:
            raise ServiceError(str(self.path), "is a fleet of another version", "use the version that made it")
        try:
            return Description(**fields)
        except (TypeError, InvalidInput):
            raise ServiceError(str(self.path / _MADE), "is damaged", _ANOTHER) from None

    def write(self, description: Description) -> None:
        """Replace the fleet's description."""
        write_whole(self.path / _MADE, json.dumps(asdict(description), indent=1).encode())

    def forget_pids(self) -> None:
        """Record that no part runs."""
        self.write(replace(self.read(), pids={}))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder, because two fleets must not write one state."""
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
        """The description of a fleet that is up."""
        description = self.read()
        try:
            with self.held():
                pass
        except ServiceError:
            return description
        fix = f"start it, in another terminal: sensecrypt fleet up --folder {self.path}"
        raise ServiceError(str(self.path), "has no fleet that is up", fix)
