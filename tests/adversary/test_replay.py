"""H2: the same run twice, once without the victim. A member that keeps its models subtracts one from the other.

The operator is hostile and one member colludes; clients and key service are the real ones.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from flwr.app import Message
from safetensors.numpy import load_file

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.client.problem import configured_problem, configured_share
from sensecrypt.client.training import train
from sensecrypt.errors import SenseCryptError
from sensecrypt.models import get_vector
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.requests import FAILURE, Assignment, Invitation
from sensecrypt.protocol.round import Round
from sensecrypt.transports.flower import client_app
from sensecrypt.transports.flower.wire import RECORD, pack
from tests.transports.flower.conftest import SMALL, LoopFleet
from tests.transports.flower.conftest import dkms as dkms
from tests.transports.flower.conftest import pki as pki

VICTIM, COLLUDER = 3, 0
SEEDED = 'batches = "seeded"\n'
SETTINGS = {**SMALL, "rounds": 1, "min_contributors": 3, "policy": "plaintext"}


class Twice:
    """The same settings in two runs, the second without the victim."""

    def __init__(self, dkms, folder, conditions: str, **more):
        settings = {**SETTINGS, **more}
        self.first, self.second = (LoopFleet(dkms, folder, dict(settings), conditions=conditions) for _ in range(2))
        self.problem = configured_problem(self.first.config)
        self.truth = np.empty(0)
        for run in (self.first, self.second):
            run.register()
            run.app = client_app(configured_share, fit=self.fit)
        self.second.dead.add(100 + VICTIM)

    def fit(self, model, data, number) -> None:
        (inputs, labels), seed = data, torch.initial_seed()
        config = self.first.config
        options = {
            "epochs": config.training.local_epochs,
            "batch_size": config.training.batch_size,
            "momentum": config.training.momentum,
        }
        trained = train(model, inputs, labels, learning_rate=config.training.learning_rate, seed=seed, **options)
        if torch.equal(labels, self.problem.clients[VICTIM][1]):
            self.truth = trained

    def model(self, run: LoopFleet) -> np.ndarray:
        """What the colluding member has at the end of a run."""
        tensors = load_file(run.folder / f"state-client-{COLLUDER}" / run.run / "model-0.safetensors")
        model = self.problem.build()
        model.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in tensors.items()})
        return get_vector(model)

    def error(self) -> float:
        """Of the victim's update as the colluder finds it, relative to the update."""
        samples = np.array([len(labels) for _, labels in self.problem.clients])
        part, start = samples[VICTIM] / samples.sum(), get_vector(self.problem.build())
        found = (self.model(self.first) - (1 - part) * self.model(self.second)) / part
        return float(np.linalg.norm(found - self.truth) / np.linalg.norm(self.truth - start))


def forget(run: LoopFleet) -> None:
    """As if every client had lost its state."""
    for client in range(4):
        if client != COLLUDER:
            shutil.rmtree(run.folder / f"state-client-{client}")
    shutil.rmtree(run.folder / f"state-client-{COLLUDER}" / "starts")


def test_without_the_guard_and_with_public_seeds_the_difference_is_the_victim(dkms, tmp_path):
    """The figure before: to the rounding of the fixed-point format."""
    twice = Twice(dkms, tmp_path, SEEDED)
    twice.first.play()
    forget(twice.first)
    twice.second.play()
    assert twice.error() < 1e-3


@pytest.mark.parametrize("conditions", ["", SEEDED], ids=["defaults", "seeded"])
def test_a_second_run_from_the_same_start_gets_nothing(dkms, tmp_path, conditions):
    """The figure after: every client refuses, and says which run had its start."""
    twice = Twice(dkms, tmp_path, conditions)
    twice.first.play()
    twice.truth = np.empty(0)
    received, app = [], twice.second.app

    def watched(message, context):
        reply = app(message, context)
        received.append({name: array.data for name, array in reply.content[RECORD].items()})
        return reply

    twice.second.app = watched
    with pytest.raises(SenseCryptError, match=f"with the same data in run {twice.first.run}; resume that run"):
        twice.second.play()
    assert received
    assert {frozenset(parts) for parts in received} == {frozenset({"proof"}), frozenset({FAILURE})}
    assert not twice.truth.size  # nobody trained
    resumed = twice.first.play()  # the first run is not harmed
    assert len(resumed.played) == 4


def register_round(twice: Twice, purpose: str) -> None:
    """Round 0 of the second run, as an aggregator registers it that goes on without enrolment."""
    start, profile = get_vector(twice.problem.build()), get_profile("insecure-test")
    clip = clip_bound(twice.second.config.training.clip, start) if purpose == "model" else None
    samples = {client: len(labels) for client, (_, labels) in enumerate(twice.problem.clients)}
    for client, count in samples.items():
        with twice.second.server.identity("client", f"client-{client}") as identity:
            identity.report_samples(twice.second.run, count)
    weights = {client: count / sum(samples.values()) for client, count in samples.items()}
    with twice.second.server.identity("aggregator", "aggregator") as aggregator:
        aggregator.register_round(Round(twice.second.run, 0, 0, purpose, start.size, profile, weights, clip=clip))


def ask(run: LoopFleet, kind: str, parts: dict[str, bytes]) -> dict[str, bytes]:
    """What the victim answers."""
    message = Message(pack(parts), dst_node_id=100 + VICTIM, message_type=kind)
    reply = run.app(message, run.context(100 + VICTIM))
    return {name: array.data for name, array in reply.content[RECORD].items()}


@pytest.mark.parametrize(("kind", "purpose"), [("train", "model"), ("train.rank", "sensitivity")])
def test_a_round_of_a_second_run_gets_nothing_either(dkms, tmp_path, kind, purpose):
    """An aggregator that goes on without enrolment, and asks for the round, or for sensitivities, at once."""
    twice = Twice(dkms, tmp_path, "", policy="plaintext" if purpose == "model" else "sensecrypt")
    twice.first.play()
    twice.truth = np.empty(0)
    register_round(twice, purpose)
    told = ask(twice.second, kind, {"assignment": Assignment(0, 0, 0, 1.0, None, refresh=False).to_bytes()})
    assert set(told) == {FAILURE}
    assert b"has started from this model with the same data in run" in told[FAILURE]
    assert not twice.truth.size


def test_a_sketch_is_sent_in_one_run_only(dkms, tmp_path):
    """A run that collects sketches and ends there: the next from the same model gets none."""
    twice = Twice(dkms, tmp_path, "", clustering="auto")
    invitation = {"invitation": Invitation(bytes(32)).to_bytes()}
    assert "enrolment" in ask(twice.first, "query.enrol", invitation)
    told = ask(twice.second, "query.enrol", invitation)
    assert set(told) == {FAILURE}
    assert f"in run {twice.first.run}".encode() in told[FAILURE]
    assert "enrolment" in ask(twice.first, "query.enrol", invitation)


def test_local_batches_are_what_is_left_where_the_guard_was_lost(dkms, tmp_path):
    """Not a protection by itself: the difference is the victim's update and the noise of everybody's batches."""
    twice = Twice(dkms, tmp_path, "")
    twice.first.play()
    forget(twice.first)
    twice.second.play()
    assert twice.error() > 0.1
