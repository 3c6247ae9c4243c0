"""The only file of the golden tests that imports the code under test.

A redesign of the coordinator changes this file and nothing else in tests/golden: settings go in by the names of
`RunConfig`, and what comes out are the arrays, lengths and records of `Played`. A record key that gets a new name is
mapped back to its old one here.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import Context, Message

from sensecrypt.client.problem import configured_problem
from sensecrypt.config import make_config
from sensecrypt.errors import Rejected
from sensecrypt.keyservice.pki import create_authority
from sensecrypt.models import layout
from sensecrypt.protocol.envelope import parse_any
from sensecrypt.records import to_fields
from sensecrypt.runs.folder import RunFolder
from sensecrypt.simulation.clock import CostModel
from sensecrypt.transports.flower import client_app
from sensecrypt.transports.flower.wire import unpack
from sensecrypt.transports.local.run import run_local
from tests.keyservice.conftest import Server, make_server
from tests.transports.flower.conftest import LoopFleet

Settings = Mapping[str, Any]
Place = tuple[int, int]  # a round, and a client or a cluster

# Of a calibrated run, whose times follow from them: powers of two, so that products are exact.
_PRICES = CostModel(encrypt=2**-7, add=2**-17, decrypt=2**-8, multiply=2**-12, add_plain=2**-15)
_NUMBERS = itertools.count()
# The devices on which golden.json was recorded: those of preset `paper`. Presets may change theirs.
_MACHINES = {"cpus": "24,16,12,10,8", "bandwidths": "50,45,40,35,30", "server_cpus": 104}
_CONDITIONS = """\
batches = "seeded"
layouts = ["prefix", "blocks", "individual"]
uploads = "weights"
least_members = 2
least_contributors = 2
colluders = 0
"""


@dataclass(frozen=True, eq=False)
class Sent:
    """One upload of a model.

    Attributes:
        length: of the message in bytes.
        attempt: how often the round was started before.
        prefix: number of encrypted blocks if these are the first ones; −1: the message carries a mask.
        mask: the packed bits of that mask; empty for a prefix.
        blocks: ciphertexts in the message.
        plain: values in the message that are not encrypted.
    """

    length: int
    attempt: int
    prefix: int
    mask: bytes
    blocks: int
    plain: int


@dataclass(frozen=True, eq=False)
class Summed:
    """What a cluster's round began with and gave; known on one machine alone.

    Attributes:
        aggregate_bytes: length of the aggregate's message.
        order: the cluster's importance order, if it has one.
        model: the cluster's model after the round.
    """

    aggregate_bytes: int
    order: npt.NDArray[np.int64] | None
    model: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Played:
    """What the golden tests look at.

    Attributes:
        labels: the cluster of each client.
        sha256: of each cluster's final model, as the run reports it.
        models: the final models.
        accuracy: of each client.
        records: of clients and servers, in the order in which they were written.
        uploads: by round and client.
        sums: by round and cluster.
    """

    labels: list[int]
    sha256: list[str]
    models: list[npt.NDArray[np.float32]]
    accuracy: list[float]
    records: list[dict[str, Any]]
    uploads: dict[Place, Sent]
    sums: dict[Place, Summed] = field(default_factory=dict)


def run_on_one_machine(settings: Settings, folder: Path, *, lost: Collection[Place] = ()) -> Played:
    """Play a run in this process and its workers.

    Args:
        settings: of the run; its messages are kept whatever they say.
        folder: an empty one.
        lost: rounds and clients whose upload does not arrive.
    """

    def intercept(client: int, number: int, data: bytes) -> bytes | None:
        return None if (number, client) in lost else data

    config, place = make_config({**_MACHINES, **settings, "messages": "keep"}), RunFolder(folder / "run")
    cost_model = _PRICES if config.encryption.crypto == "calibrated" else None
    result = run_local(config, place, intercept=intercept, cost_model=cost_model)
    uploads, sums = {}, {}
    for number in range(config.training.rounds):
        for path in sorted((place.path / "messages" / f"round-{number}").iterdir()):
            kind, _, who = path.name.removesuffix(".safetensors").partition("-")
            if kind == "upload":
                uploads[number, int(who)] = _read_upload(path.read_bytes())
            elif kind == "aggregate":
                _, members = parse_any(place.message(number, f"members-{who}"), "members")
                _, released = parse_any(place.message(number, f"released-{who}"), "released")
                length = path.stat().st_size
                sums[number, int(who)] = Summed(length, members.get("order"), released["model"])
    log = list(map(to_fields, result.log))
    return Played(result.labels, result.model_sha256, result.vectors, result.accuracy, log, uploads, sums)


def run_on_fleet(settings: Settings, folder: Path, *, lost: Collection[Place] = ()) -> Played:
    """Play a run of real client and server apps in this process, with a key service in another one.

    Args:
        settings: of the run.
        folder: an empty one.
        lost: rounds and clients whose upload does not arrive.
    """
    torch.set_num_threads(1)  # as a run on one machine does
    run = f"golden-{next(_NUMBERS):03}"  # part of every message, so all names have the same length
    server, app = _key_service(), _Listening(lost)
    more = {"run": run, "conditions": _CONDITIONS, "deadline": 1.0 if lost else 30.0}
    fleet = LoopFleet(server, folder, {**_MACHINES, **settings}, app=app, **more)  # type: ignore[arg-type]
    fleet.register()
    outcome = fleet.play()
    assert "Traceback" not in server.stderr()
    names = [name for name, _ in layout(configured_problem(fleet.config).build())]
    models = []
    for cluster in range(max(outcome.labels) + 1):
        client = outcome.labels.index(cluster)
        path = fleet.folder / f"state-client-{client}" / run / f"model-{cluster}.safetensors"
        _, tensors = parse_any(path.read_bytes(), "model")
        models.append(np.concatenate([tensors[name].reshape(-1) for name in names]))
    return Played(
        outcome.labels, outcome.model_sha256, models, outcome.accuracy, list(map(to_fields, outcome.log)), app.uploads
    )


@functools.cache
def _key_service() -> Server:
    """One key service for all runs of this process: it takes longer to start than most runs."""
    folder = Path(tempfile.mkdtemp(prefix="golden-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "pki").mkdir()
    create_authority(folder / "pki")
    server = make_server(folder / "service", folder / "pki", decryptions_per_minute=10_000)
    server.start()
    atexit.register(server.end)  # before its folder is removed
    return server


class _Listening:
    """The clients' app; keeps what it uploads, and loses some of it."""

    def __init__(self, lost: Collection[Place]) -> None:
        self._app, self._lost = client_app(), lost
        self.uploads: dict[Place, Sent] = {}

    def __call__(self, message: Message, context: Context) -> Message:
        reply = self._app(message, context)
        parts = unpack(reply.content)
        if "upload" not in parts:
            return reply  # another kind of reply
        header, _ = parse_any(parts["upload"], "upload")
        place = int(header["round"]), int(header["client"])
        if place in self._lost:
            raise Rejected("the upload is lost")
        self.uploads[place] = _read_upload(parts["upload"])
        return reply


def _read_upload(data: bytes) -> Sent:
    header, tensors = parse_any(data, "upload")
    prefix, bits = int(header["prefix"]), tensors["mask"].tobytes()
    blocks = prefix if prefix >= 0 else int.from_bytes(bits, "little").bit_count()
    return Sent(len(data), int(header["attempt"]), prefix, bits, blocks, tensors["plain"].size)
