"""A fleet on this machine: its parts are started in order, supervised, and ended in order."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sensecrypt import checks
from sensecrypt.config import RunConfig
from sensecrypt.errors import InvalidInput, ServiceError
from sensecrypt.extras import require
from sensecrypt.lab.fleet import flower, making, ports
from sensecrypt.lab.fleet.commands import command_of, environment_of, tag
from sensecrypt.lab.fleet.folder import Description, FleetFolder
from sensecrypt.lab.fleet.part import Part
from sensecrypt.lab.fleet.processes import sweep
from sensecrypt.lab.fleet.submit import Submitted, submit
from sensecrypt.lab.fleet.supervisor import Say, Supervisor

_STILL_ONLINE = (
    "Failed to activate SuperNode"  # in the log of a killed node that is started again before two heartbeats are missed
)
_READY_SECONDS = 120.0
_LOOK_SECONDS = 0.5
NEEDED = ("dkms", "flower", "torch")  # extras


class Fleet:
    """A key service, a SuperLink and SuperNodes; a context manager that starts and ends them."""

    def __init__(
        self,
        folder: Path,
        *,
        clients: int | None = None,
        tls: bool | None = None,
        port: int | None = None,
        say: Say = lambda _: None,
    ) -> None:
        """Describe a fleet; `up` starts it.

        Args:
            folder: of the fleet; created by `up` if it is new.
            clients: the number of SuperNodes; None: as in the folder.
            tls: whether SuperLink has a certificate and SuperNodes have keys; None: as in the folder.
            port: the first of the fleet's consecutive ports; None: as before, or free ones.
            say: receives a line for each event.
        """
        self.folder = FleetFolder(folder.expanduser().absolute())
        self._asked, self._port, self._say = (clients, tls), port, say
        self._held = contextlib.ExitStack()
        self._parts: dict[str, Part] = {}

    def __enter__(self) -> Fleet:
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def parts(self) -> list[Part]:
        """All of them, in the order of their start."""
        return list(self._parts.values())

    def part(self, name: str) -> Part:
        """The part of that name: `dkms`, `superlink`, `node-0` and so on."""
        if name not in self._parts:
            raise InvalidInput("name", f"is {name!r}", f"name one of {', '.join(self._parts) or 'a fleet that is up'}")
        return self._parts[name]

    def up(self) -> Fleet:
        """Start all parts, and wait until each works; a failure ends those that were started."""
        require("a fleet", *NEEDED)
        description = self._make_or_read()
        self._held.enter_context(self.folder.held())
        try:
            self._start(description)
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """End all parts: nodes, then SuperLink, then the key service."""
        nodes = [part for name, part in self._parts.items() if name.startswith("node-")]
        for node in nodes:
            node.signal_end()
        for part in [*nodes, *(self._parts[name] for name in ("superlink", "dkms") if name in self._parts)]:
            part.end()
        if self._parts:
            self.folder.forget_pids()
        self._parts.clear()
        self._held.close()

    def tend(self, stop: threading.Event) -> None:
        """Restart parts that die, as a service manager would, until `stop` is set."""
        supervisors = [Supervisor(part, self._say) for part in self.parts]
        while not stop.wait(_LOOK_SECONDS):
            started = [supervisor.look() for supervisor in supervisors]
            if any(started):
                self._note_pids()

    def submit(self, config: RunConfig, **options: Any) -> Submitted:
        """Submit a run; see `submit`."""
        return submit(self.folder, config, **options)

    def _make_or_read(self) -> Description:
        clients, tls = self._asked
        if not self.folder.exists():
            if clients is None:
                self.folder.refuse_another()
                raise ServiceError(
                    "--clients", "is missing, and the fleet is new", "pass the number of clients, such as --clients 4"
                )
            description = Description(clients, bool(tls))
            making.make_fleet(self.folder, description)
            self._say(f"Fleet of {clients} clients made in {self.folder.path}, for trying out only:")
            self._say("the key service's passphrase and the certificate authority's key are in it, unencrypted.")
        description = self.folder.read()
        for option, asked, has in (("--clients", clients, description.clients), ("--tls", tls, description.tls)):
            if asked is not None and asked != has:
                problem = f"is {asked}, and the fleet in {self.folder.path} was made with {has}"
                raise ServiceError(option, problem, "leave it out, or choose a new folder")
        return description

    def _start(self, description: Description) -> None:
        making.check_certificates(self.folder, description)
        for name in reversed(
            description.ports
        ):  # of a fleet whose `fleet up` was killed; nodes first, so that they deregister
            sweep(tag(name, self.folder), seconds=5)
        description = replace(description, port=self._choose_port(description), pids={})
        making.write_addresses(self.folder, description)
        making.check_identities(self.folder, description)
        self.folder.write(description)
        self._parts = {name: self._make(name, description) for name in ("dkms", "superlink", *description.nodes)}
        begun = time.monotonic()
        self._bring_up(["dkms"], "key service", description)
        self._bring_up(["superlink"], "SuperLink", description)
        if description.tls:
            self._say(f"registering {description.clients} node keys …")
            for node in description.nodes:
                flower.register_node(self.folder, self.folder.node_key(node).with_name(f"{node}.pub"))
        self._bring_up(description.nodes, f"{description.clients} SuperNodes", description)
        self._say(f"The fleet is up after {time.monotonic() - begun:.0f} s.")

    def _bring_up(self, names: list[str], what: str, description: Description) -> None:
        self._say(f"starting {what} …")
        for name in names:
            self._parts[name].start()
        self._note_pids()
        for name in names:
            self._parts[name].wait_ready(_READY_SECONDS + 5 * description.clients)

    def _choose_port(self, description: Description) -> int:
        count = len(description.ports)
        if self._port is not None:
            checks.whole("--port", self._port, low=1)
            ports.check_ports(self._port, count)
            return self._port
        before = range(description.port, description.port + count)
        if description.port and all(ports.is_free(port) for port in before):
            return description.port
        return ports.find_ports(count)

    def _make(self, name: str, description: Description) -> Part:
        authority = self.folder.pki / "ca.crt" if description.tls else None
        is_ready: dict[str, Callable[[Part], bool]] = {
            "dkms": lambda part: part.has_said("Listening on"),
            "superlink": lambda _: flower.answers(description.superlink, authority),
        }
        return Part(
            name,
            command_of(name, self.folder, description),
            environment_of(name, self.folder),
            self.folder.log(name),
            is_ready=is_ready.get(name, lambda part: part.has_said("SuperNode ID:")),
            refusal=None if name in is_ready else _STILL_ONLINE,
        )

    def _note_pids(self) -> None:
        pids = {name: part.pid for name, part in self._parts.items() if part.pid is not None}
        self.folder.write(replace(self.folder.read(), pids=pids))
