"""M8: a Flower node gets the seed of the sketches after it has proven to be a member, and no other node does.

Before, the seed was in the first message to every node.
"""

from __future__ import annotations

import pytest
from flwr.app import Message

from sensecrypt.coordinator.checkpoint import sketch_seed
from sensecrypt.protocol.requests import Challenge
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.flower.proof import Statement, prove
from sensecrypt.transports.flower.wire import RECORD, pack
from tests.transports.flower.conftest import LoopFleet
from tests.transports.flower.conftest import dkms as dkms
from tests.transports.flower.conftest import fleet as fleet
from tests.transports.flower.conftest import pki as pki

STRANGER = 103  # the node


def received(played: LoopFleet) -> dict[int, bytes]:
    """What each node receives in a whole run."""
    sent: dict[int, bytes] = dict.fromkeys(played.nodes, b"")
    answer = played.app

    def app(message: Message, context) -> Message:
        sent[context.node_id] += b"".join(array.data for array in message.content[RECORD].values())
        return answer(message, context)

    played.app = app
    played.play()
    return sent


def without_a_certificate(played: LoopFleet) -> None:
    """The stranger answers whatever it is asked with a proof that is none."""
    honest = played.app

    def app(message: Message, context) -> Message:
        if context.node_id == STRANGER:
            return Message(pack({"proof": b"x"}), reply_to=message)
        return honest(message, context)

    played.app = app


def with_a_proof_of_another(played: LoopFleet) -> None:
    """The stranger sends what client 2 has just proven itself with."""
    honest, stolen = played.app, []

    def app(message: Message, context) -> Message:
        if context.node_id == STRANGER:
            return Message(stolen[0], reply_to=message)
        reply = honest(message, context)
        if context.node_id == STRANGER - 1 and not stolen:
            stolen.append(reply.content)
        return reply

    played.app = app


def with_a_certificate_of_no_member(played: LoopFleet) -> None:
    """The stranger has a certificate of the right authority, and is not registered with the run.

    The honest code of a client would stop at the key service, so the stranger proves itself without asking it.
    """
    honest, identity = played.app, played.identity("client", "stranger")

    def app(message: Message, context) -> Message:
        if context.node_id != STRANGER:
            return honest(message, context)
        challenge = Challenge.from_bytes(message.content[RECORD]["challenge"].data)
        statement = Statement(played.run, context.node_id, challenge.nonce)
        return Message(
            pack({"proof": prove(statement, certificate=identity.certificate, key=identity.key)}), reply_to=message
        )

    played.app = app


@pytest.mark.parametrize("become", [without_a_certificate, with_a_proof_of_another, with_a_certificate_of_no_member])
def test_a_stranger_never_gets_the_seed(fleet, become):
    played = fleet(rounds=1, clustering="auto")
    become(played)
    sent = received(played)
    seed = sketch_seed(RunFolder(played.state))
    for node, data in sent.items():
        assert data
        assert (seed in data or seed.hex().encode() in data) == (node != STRANGER)
