"""C1 in methods with two exchanges: a client whose training fails proposes blocks, and uploads, like everybody else."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.client import scoring
from sensecrypt.client.client import NO_PART
from sensecrypt.client.problem import configured_problem
from sensecrypt.protocol.requests import FAILURE, facts_from_bytes
from sensecrypt.records import to_fields
from tests.adversary.test_absence import SETTINGS
from tests.adversary.test_conditions import Wire
from tests.transports.flower.conftest import dkms as dkms
from tests.transports.flower.conftest import fleet as fleet
from tests.transports.flower.conftest import pki as pki

FAILS, REASON = 2, "of this client's data alone"


def fail_at(monkeypatch, played, *, raises: bool) -> None:
    """Training fails for client 2: with an exception, or with weights that are not finite."""
    label, honest = int(configured_problem(played.config).clients[FAILS][1][0]), scoring.train_on

    def train(model, data, recipe, **settings):
        trained = honest(model, data, recipe, **settings)
        if int(data.parts[1][0]) != label:
            return trained
        if raises:
            raise RuntimeError(REASON)
        return np.full_like(trained, np.nan)

    monkeypatch.setattr(scoring, "train_on", train)


@pytest.mark.parametrize("policy", ["maskcrypt", "maskcrypt_union"])
@pytest.mark.parametrize("raises", [True, False], ids=["raises", "diverges"])
def test_training_that_fails_before_the_proposal_changes_nothing_that_is_seen(
    fleet, monkeypatch, caplog, policy, raises
):
    """Before, the client was missing, and the aggregator was told its reason."""
    played = fleet(**{**SETTINGS, "rounds": 1, "policy": policy, "ratio": 0.3})
    fail_at(monkeypatch, played, raises=raises)
    wire = Wire(played)
    outcome = played.play()
    for kind, part in (("train.propose", "proposal"), ("train", "upload")):
        sent = {client: parts for client, name, parts in wire.received if name == kind}
        assert set(sent) == set(range(6))
        assert len({frozenset(parts) for parts in sent.values()}) == 1
        assert len({len(parts[part]) for parts in sent.values()}) == 1
    told = [facts_from_bytes(parts["facts"], "train") for parts in sent.values()]
    assert len({frozenset(to_fields(facts)) for facts in told}) == 1
    assert min(facts.train_seconds for facts in told) > 0
    assert {record.client for record in outcome.played} == set(range(6))
    everything = b"".join(part for _, _, parts in wire.received for part in parts.values())
    assert REASON.encode() not in everything
    assert "a zero update is sent" in caplog.text  # on the client's own machine


@pytest.mark.parametrize("error", [FloatingPointError(REASON), None], ids=["an exception", "a typed error"])
def test_a_client_that_cannot_be_described_gives_no_reason(fleet, monkeypatch, caplog, error):
    """Before the first round one is missing where its sketch fails; why stays in its own log."""
    played = fleet(**{**SETTINGS, "clustering": "auto", "rounds": 1})
    honest = scoring.gradient_of

    def gradient_of(context, client, vector, number, *, samples):
        gradient, seconds = honest(context, client, vector, number, samples=samples)
        if client == FAILS and error is not None:
            raise error
        return np.full_like(gradient, np.nan) if client == FAILS else gradient, seconds

    monkeypatch.setattr(scoring, "gradient_of", gradient_of)
    wire = Wire(played)
    played.play()
    [told] = {parts[FAILURE].decode() for client, kind, parts in wire.received if client == FAILS and FAILURE in parts}
    assert told == NO_PART
    assert (REASON if error is not None else "NaN") in caplog.text
