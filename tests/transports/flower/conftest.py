"""A fleet in one process: real ClientApps and the real ServerApp code, a real key service, and a grid between them."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from sensecrypt.client.identity import Identity, read_identity
from sensecrypt.client.problem import always_of, configured_problem
from sensecrypt.models import get_vector
from sensecrypt.runs.outcome import Outcome, read_outcome
from sensecrypt.transports.flower import client_app
from sensecrypt.transports.flower.serverapp import run_fleet
from sensecrypt.transports.flower.settings import SETTINGS, read_settings
from tests.keyservice.conftest import Server, certificate, make_server, pki

__all__ = ["pki"]

_names = itertools.count()
SMALL = {
    "dataset": "digits",
    "clients": 4,
    "partition": "iid",
    "clustering": "none",
    "rounds": 2,
    "profile": "insecure-test",
    "min_contributors": 2,
    "workers": 1,
    "budget": "paper",
}

OPEN = """\
batches = "seeded"  # models are compared with those of one machine
layouts = ["prefix", "blocks"]
proposals = true
largest_step = 100
least_members = 2
least_contributors = 2
colluders = 0
"""

Before = Callable[[int, str, Message], Message | None]  # client, kind, message: what reaches it, None if it is dead


class LoopGrid(Grid):
    """Delivers to ClientApps in this process."""

    def __init__(self, fleet: LoopFleet):
        self.fleet = fleet
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count()
        self.sent: list[tuple[int, str]] = []

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *args, **more):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError

    def get_node_ids(self):
        return [node for node in self.fleet.nodes if node not in self.fleet.dead]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            number = f"message-{next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = number
            ids.append(number)
            node = message.metadata.dst_node_id
            self.sent.append((self.fleet.nodes[node], message.metadata.message_type))
            arrives = self.fleet.before(self.fleet.nodes[node], message.metadata.message_type, message)
            if arrives is None or node in self.fleet.dead:
                continue
            try:
                self._replies[number] = self.fleet.app(arrives, self.fleet.context(node))
            except Exception as error:
                self._replies[number] = Message(Error(2, str(error)), reply_to=message)
        return ids

    def pull_messages(self, message_ids):
        return [self._replies.pop(number) for number in message_ids if number in self._replies]


@dataclass
class LoopFleet:
    """Identities of one run."""

    server: Server
    folder: Path
    settings: dict[str, object]
    run: str = ""
    deadline: float = 2.0
    app: ClientApp = field(default_factory=client_app)
    nodes: dict[int, int] = field(default_factory=dict)  # clients by node
    dead: set[int] = field(default_factory=set)
    before: Before = lambda client, kind, message: message
    conditions: str = OPEN  # of every client; "": those that a client has if it says nothing

    def __post_init__(self):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.run = self.run or f"fleet-{next(_names)}"
        clients = self.config.problem.clients
        self.nodes = self.nodes or {100 + client: client for client in range(clients)}
        for client in range(clients):
            self.identity("client", f"client-{client}")

    @property
    def run_config(self) -> dict[str, object]:
        told = {f"{SETTINGS}{key}": str(value) for key, value in self.settings.items()}
        return {"sensecrypt.run": self.run, "sensecrypt.deadline": self.deadline, "sensecrypt.enrol-seconds": 1, **told}

    @property
    def config(self):
        return read_settings(self.run_config).config

    def context(self, node: int) -> Context:
        path = self.folder / f"client-{self.nodes[node]}.toml"
        return Context(1, node, {"sensecrypt-identity": str(path)}, RecordDict(), dict(self.run_config))

    def identity(self, role: str, name: str, more: str = "") -> Identity:
        crt, key = certificate(self.server.pki, role, name)
        path = self.folder / f"{name}.toml"
        more += self.conditions if role == "client" else ""
        more += "" if "tell_accuracy" in more else "tell_accuracy = true\n"
        path.write_text(
            f'url = "{self.server.url}"\ncertificate = "{crt}"\nkey = "{key}"\n'
            f'authority = "{self.server.pki / "ca.crt"}"\nstate = "state-{name}"\n{more}'
        )
        return read_identity(path)

    def register(self) -> None:
        """As an admin does before a run is submitted."""
        config, problem = self.config, configured_problem(self.config)
        model = problem.build()
        flags = always_of(config, model, problem.classes)
        first = [] if flags is None else [(i, i + 1) for i in flags.nonzero()[0].tolist()]
        members = {client: f"client-{client}" for client in range(config.problem.clients)}
        with self.server.identity("admin", "admin") as admin:
            admin.register_run(
                self.run,
                size=get_vector(model).size,
                profile=config.encryption.profile,
                members=members,
                min_contributors=config.release.min_contributors,
                first=first,
                server=config.server.rule,
            )

    def play(self) -> Outcome:
        """The ServerApp, from its start to its end."""
        aggregator = self.identity("aggregator", "aggregator")
        run_fleet(LoopGrid(self), read_settings(self.run_config), aggregator)
        return self.outcome()

    def outcome(self) -> Outcome:
        return read_outcome(self.state)

    @property
    def state(self) -> Path:
        return self.folder / "state-aggregator" / self.run


@pytest.fixture(scope="session")
def dkms(tmp_path_factory, pki) -> Iterator[Server]:
    server = make_server(tmp_path_factory.mktemp("fleet-dkms") / "service", pki, decryptions_per_minute=10_000)
    server.start()
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.stderr()


@pytest.fixture
def fleet(dkms, tmp_path) -> Callable[..., LoopFleet]:
    """Makes a registered fleet with these settings above the small ones."""

    def make(**settings) -> LoopFleet:
        folder = Path(tempfile.mkdtemp(prefix="fleet-", dir=tmp_path))  # clients of its own, who have seen no other run
        made = LoopFleet(dkms, folder, {**SMALL, **settings})
        made.register()
        return made

    return make
