"""MaskCrypt's two exchanges in a fleet, with an aggregator that does not keep to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sensecrypt.config import make_config
from sensecrypt.protocol.requests import FAILURE, Assignment
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.flower.wire import pack, unpack
from sensecrypt.transports.local.run import run_local
from tests.transports.flower.conftest import SMALL, dkms, fleet, pki

__all__ = ["dkms", "fleet", "pki"]
SETTINGS = {"policy": "maskcrypt", "ratio": 0.3, "rounds": 2}


@pytest.mark.parametrize("policy", ["maskcrypt", "maskcrypt_union", "fedml_he"])
def test_methods_of_others_end_in_the_same_model_on_a_fleet(fleet, tmp_path, policy):
    settings = {**SETTINGS, "policy": policy}
    local = run_local(make_config({**SMALL, **settings}), RunFolder(tmp_path / "local"))
    outcome = fleet(**settings).play()
    assert outcome.model_sha256 == local.model_sha256
    shares = {(each.round, each.client): each.encrypted_share for each in local.played}
    assert {(each.round, each.client): each.encrypted_share for each in outcome.played} == shares


def played_with(fleet, change):
    """A run whose train messages the aggregator changes; what clients answered to them."""
    played, answers = fleet(**SETTINGS), []
    played.deadline = 0.5
    app = played.app

    def before(client, kind, message):
        if kind == "train" and "agreed" in unpack(message.content):
            message.content = pack(change(dict(unpack(message.content))))
        return message

    def listening(message, context):
        reply = app(message, context)
        if message.metadata.message_type == "train":
            answers.append(unpack(reply.content))
        return reply

    played.before, played.app = before, listening
    with pytest.raises(Exception, match="round 0"):
        played.play()
    return answers


def test_an_empty_agreement_gets_nothing(fleet):
    """Who encrypts less than its `least_share` sends nothing, whatever was agreed on."""
    answers = played_with(fleet, lambda parts: {**parts, "agreed": bytes(len(parts["agreed"]))})
    assert answers
    assert all(set(parts) == {FAILURE} for parts in answers)


def test_an_agreement_of_another_length_gets_nothing(fleet):
    answers = played_with(fleet, lambda parts: {**parts, "agreed": parts["agreed"] + b"\xff"})
    assert answers
    assert all(set(parts) == {FAILURE} for parts in answers)


def test_no_upload_is_made_twice_of_one_proposal(fleet):
    """What was trained is used once: an aggregator cannot have it encrypted under two masks."""
    played, twice = fleet(**SETTINGS), []
    app = played.app

    def listening(message, context):
        reply = app(message, context)
        if message.metadata.message_type == "train":
            parts = dict(unpack(message.content))
            message.content = pack({**parts, "agreed": np.packbits(np.ones(len(parts["agreed"]) * 8, bool)).tobytes()})
            twice.append(unpack(app(message, context).content))
        return reply

    played.app = listening
    played.play()
    assert twice
    assert {parts.get(FAILURE) for parts in twice} == {b"an upload was requested before a proposal"}


@pytest.mark.parametrize("change", [{"start": None}, {"cluster": 1}], ids=["start", "cluster"])
def test_the_second_exchange_is_of_the_first_ones_start_and_cluster(fleet, change):
    """Else the update would be what was trained minus a model that it was not trained from, or another cluster's."""
    played, answers = fleet(**SETTINGS), []
    app = played.app

    def listening(message, context):
        parts = unpack(message.content)
        if message.metadata.message_type == "train":
            assignment = Assignment.from_bytes(parts["assignment"])
            if assignment.number == 1:
                message.content = pack({**parts, "assignment": replace(assignment, **change).to_bytes()})
                answers.append(unpack(app(message, context).content))
                message.content = pack(parts)
        return app(message, context)

    played.app = listening
    played.play()  # what was trained is still there for the right second exchange
    assert len(answers) == 4
    assert {parts[FAILURE] for parts in answers} == {
        b"an upload was requested, but the proposal was for another attempt, cluster or start model"
    }
