"""H4 and the client's side of H1: a run that asks for too much gets nothing from clients that never said a word.

The operator of the run, or the aggregator, is hostile; clients and key service are the real ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import Message

from sensecrypt.client.problem import configured_problem, configured_share
from sensecrypt.errors import SenseCryptError
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.models import get_vector, mean_gradient
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.messages import Upload
from sensecrypt.protocol.requests import FAILURE
from sensecrypt.protocol.round import Round
from sensecrypt.transports.flower import client_app
from sensecrypt.transports.flower.wire import RECORD
from tests.transports.flower.conftest import LoopFleet
from tests.transports.flower.conftest import dkms as dkms
from tests.transports.flower.conftest import fleet as fleet
from tests.transports.flower.conftest import pki as pki

ONE_CLASS = {"clients": 6, "partition": "classes:1", "rounds": 1, "min_contributors": 3, "clustering": "none"}
BLOCKS = {"layout": "blocks", "policy": "high_sensitivity", "ratio": 0.2, "gradient": "start"}
ALONE = {0: 0.8, 1: 0.0034, 2: 0.1966}


class Wire:
    """What the aggregator receives from clients, part by part."""

    def __init__(self, played: LoopFleet):
        self.received: list[tuple[int, str, dict[str, bytes]]] = []
        honest = played.app

        def app(message: Message, context) -> Message:
            reply = honest(message, context)
            parts = {name: array.data for name, array in reply.content[RECORD].items()}
            self.received.append((played.nodes[context.node_id], message.metadata.message_type, parts))
            return reply

        played.app = app

    def uploads(self) -> dict[int, bytes]:
        return {client: parts["upload"] for client, _, parts in self.received if "upload" in parts}


def read_classes(played: LoopFleet, uploads: dict[int, bytes]) -> int:
    """How many clients' only class the operator reads off their masks, with public data and the public model."""
    problem = configured_problem(played.config)
    model, (images, labels) = problem.build(), problem.test
    before, found = get_vector(model), 0
    expected = [np.abs(before * mean_gradient(model, images[labels == c], labels[labels == c])) for c in range(10)]
    even = dict.fromkeys(range(6), 1 / 6)
    round_ = Round(played.run, 0, 0, "model", before.size, get_profile(played.config.encryption.profile), even)
    sums = np.array([np.add.reduceat(each, np.arange(0, before.size, round_.block)) for each in expected])
    for client, upload in uploads.items():
        flags = Upload.from_bytes(upload, round_).mask.flags
        tops = np.argsort(-sums, axis=1)[:, : int(flags.sum())]
        agreement = [flags[top].sum() for top in tops]
        found += int(np.argmax(agreement)) == int(problem.clients[client][1][0])
    return found


def silent(played: LoopFleet) -> LoopFleet:
    """Clients whose identity files say nothing but who they are."""
    played.conditions = ""
    for client in range(played.config.problem.clients):
        played.identity("client", f"client-{client}")
    return played


def test_masks_tell_the_classes_of_clients_that_allow_the_layout(fleet):
    """The figure before: what the audit found, against clients whose files allow `blocks`."""
    played = fleet(**ONE_CLASS, **BLOCKS)
    wire = Wire(played)
    played.play()
    assert read_classes(played, wire.uploads()) == 6


@pytest.mark.parametrize(
    ("asked", "condition"),
    [
        (BLOCKS, "condition layouts: the run asks for blocks"),
        ({"learning_rate": 100.0}, "condition learning_rate: the run asks for 100"),
        ({"batch_size": 1}, "condition batch_size: the run asks for 1"),
        ({"local_epochs": 1000}, "condition local_epochs: the run asks for 1000"),
        ({"min_contributors": 2}, "condition least_contributors: the run asks for 2 in a sum"),
        ({"policy": "maskcrypt", "ratio": 0.3}, "condition proposals: the run asks for policy maskcrypt"),
    ],
    ids=["layout", "learning-rate", "batch-size", "epochs", "contributors", "proposals"],
)
def test_a_run_that_asks_for_too_much_gets_nothing(fleet, caplog, asked, condition):
    """The figure after: no upload, no sketch, no scores, not even data loaded; the operator reads which condition."""
    played, loaded = silent(fleet(**{**ONE_CLASS, **asked})), []

    def load(config, client):
        loaded.append(client)
        return configured_share(config, client)

    played.app = client_app(load)
    wire = Wire(played)
    with pytest.raises(SenseCryptError, match=r"0 client\(s\) enrolled within 1 s, .* last refusal: condition"):
        played.play()
    assert all(set(parts) == {FAILURE} for _, _, parts in wire.received)
    assert {client for client, _, _ in wire.received} == set(range(6))
    assert all(parts[FAILURE].decode().startswith(condition) for _, _, parts in wire.received)
    assert not loaded
    assert read_classes(played, wire.uploads()) == 0
    assert condition in caplog.text
    events = {line["event"] for line in played.server.audit() if line.get("run") == played.run}
    assert not events & {"tag-taken", "sketch-rotated", "handed-out"}


def test_settings_that_change_after_enrolment_get_nothing(fleet):
    """The operator enrols clients with harmless settings, and asks for masks in the round."""
    played = silent(fleet(**ONE_CLASS))
    wire = Wire(played)

    def before(client, kind, message):
        if kind == "train":
            played.settings.update(BLOCKS)
        return message

    played.before = before
    with pytest.raises(SenseCryptError):
        played.play()
    assert not wire.uploads()


def test_weights_that_leave_a_client_alone_get_nothing_from_it(fleet, monkeypatch):
    """H1 at the client, with a key service that lets it pass: 99.6 % of the honest part would be client 0's."""
    played = silent(fleet(**{**ONE_CLASS, "clients": 3, "partition": "iid", "policy": "plaintext"}))
    wire, honest = Wire(played), DkmsClient.task

    def task(self, place):
        given = honest(self, place)
        return replace(given, round=replace(given.round, weights=ALONE))

    monkeypatch.setattr(DkmsClient, "task", task)
    with pytest.raises(SenseCryptError):
        played.play()
    [told] = {parts[FAILURE].decode() for client, kind, parts in wire.received if (client, kind) == (0, "train")}
    assert told.startswith("condition largest_share: the run asks for 99.6% of the sum without the 1 largest others")
    assert 0 not in wire.uploads()


def test_a_client_file_that_contradicts_itself_harms_nobody_else(fleet):
    played = silent(fleet(**{**ONE_CLASS, "partition": "iid"}))
    with (played.folder / "client-3.toml").open("a") as file:
        file.write("least_contributors = 3\ncolluders = 2\n")
    wire = Wire(played)
    outcome = played.play()
    [told] = {parts[FAILURE].decode() for client, _, parts in wire.received if client == 3}
    assert "least_contributors: is 3, but 2 may collude, which isolates a client; write at least 4" in told
    assert {record.client for record in outcome.played} == {0, 1, 2, 4, 5}
