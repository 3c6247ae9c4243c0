"""What a hostile ServerApp of a native Flower app can try, with a real key service."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict

from sensecrypt.errors import Rejected
from sensecrypt.flower import SenseCrypt
from sensecrypt.flower.instructions import RECORD
from sensecrypt.protocol.releaserules import ReleaseRules
from tests.flower.loop import FAST, Loop, client_app, model, play, record
from tests.flower.test_deployed import Deployment, deployment, pki, server

__all__ = ["deployment", "pki", "server"]


def errors(grid: Loop) -> dict[int, str]:
    return {reply.metadata.src_node_id: reply.error.reason for reply in grid.received if reply.has_error()}


def test_one_client_is_given_a_model_in_which_the_others_do_not_move(deployment: Deployment):
    """Model inconsistency: the sum would be that client's update. Members that got another model send nothing."""

    def other_model(node, message):
        if node == 104:
            arrays = {key: array * 0 for key, array in model().items()}
            message.content = RecordDict({**message.content, "arrays": record(arrays)})
        return message

    grid = deployment.loop(before=other_model)
    play(deployment.strategy(), grid, rounds=1)
    assert list(errors(grid)) == [104]
    assert "another member of this round received another model" in errors(grid)[104]


@pytest.mark.parametrize(("term", "value"), [("bound", 1e-3), ("most-examples", 1.0), ("least-examples", 1e6)])
def test_one_client_is_told_other_terms(deployment, term, value):
    """It would count for nothing, or for everything."""

    def change(node, message):
        if node == 104:
            message.content[RECORD][term] = value
        return message

    grid = deployment.loop(before=change)
    play(deployment.strategy(), grid, rounds=1)
    assert "another model, or other terms" in errors(grid)[104]


def test_a_model_is_trained_once_whatever_round_it_is_called(deployment):
    """Round 2 with the model of round 1 and one client fewer: the difference would be that client's update."""
    strategy = deployment.strategy()
    grid = deployment.loop()
    play(strategy, grid, rounds=1)
    grid.received.clear()
    messages = list(strategy.configure_train(2, record(model()), ConfigRecord(), grid))
    replies = grid.send_and_receive(messages[:4])
    with pytest.raises(Rejected, match="trained from this very model before"):
        strategy.aggregate_train(2, replies)


def test_a_new_run_of_the_same_model_is_refused_too(deployment):
    play(deployment.strategy(), deployment.loop(), rounds=1)
    with pytest.raises(Rejected, match="trained from this very model before"):
        play(deployment.strategy(), deployment.loop(), rounds=1)


def test_a_node_asked_twice_in_a_round_gives_one_answer(deployment):
    """Asked again with its state reset, as after a restart: what it has on disk counts."""
    grid = deployment.loop()
    twice = []

    def again(node, message):
        if node == 103 and not twice:
            twice.append(node)
            copy = dict(message.content)
            grid._deliver(message)
            grid.states[node].clear()
            message.content = RecordDict(copy)
        return message

    grid.before = again
    play(deployment.strategy(), grid, rounds=1)
    assert "trained from this very model before" in errors(grid)[103]


def test_one_certificate_is_one_member(deployment, server):
    """A ServerApp with one accomplice cannot fill a round with it."""
    same = Loop(config=lambda node: deployment.node(min(node, 102)))
    play(deployment.strategy(), same, rounds=1)  # a sum of three certificates
    assert len(errors(same)) == 2
    assert "or this certificate is another member" in errors(same)[104]


def test_a_cohort_of_two_is_not_released(deployment):
    """Of five that were asked, the ServerApp adds two: the rules count who is in the sum."""
    strategy = deployment.strategy()
    take = strategy._take

    def fewer(received, playing):
        usable, failed, problems = take(received, playing)
        return {number: usable[number] for number in sorted(usable)[:2]}, failed, problems

    strategy._take = fewer
    strategy._service.rules = lambda: ReleaseRules(min_contributors=1)
    with pytest.raises(Rejected, match=r"2 contributor.s., but at least 3 are needed"):
        play(strategy, deployment.loop(), rounds=1)


def test_a_cohort_in_which_one_client_is_nearly_everything_is_not_released(deployment):
    """Weights travel inside the sum, and still the key service knows who would dominate it."""
    examples = lambda node: 1000 if node == 100 else 60  # noqa: E731
    strategy = deployment.strategy()
    strategy._service.rules = lambda: ReleaseRules(min_contributors=1)
    with pytest.raises(Rejected, match="one client"):
        play(strategy, deployment.loop(app=client_app(examples=examples), nodes=3), rounds=1)


def test_a_mask_of_nothing_is_refused_by_the_client(deployment):
    """Everything blinded and nothing encrypted is for the client to allow."""

    def nothing(node, message):
        told = message.content[RECORD]
        told["mask"] = bytes(len(told["mask"]))
        return message

    grid = deployment.loop(before=nothing)
    with pytest.raises(Rejected, match="condition least_share"):
        play(deployment.strategy(), grid, rounds=1)


def test_the_aggregator_learns_no_client_s_update_from_what_it_holds(deployment):
    """All an upload decodes to without key and seeds is noise: it is unlike the update, and unlike itself."""
    from sensecrypt.protocol.messages import Upload

    kept = {}
    strategy = deployment.strategy()
    release = strategy._release

    def look(usable, playing, problems):
        kept["uploads"] = [Upload.from_bytes(upload, playing.round) for _, upload in usable.values()]
        return release(usable, playing, problems)

    strategy._release = look
    play(strategy, deployment.loop(), rounds=1)
    half = len(kept["uploads"][0].mask.to_array()) // 2
    for upload in kept["uploads"]:
        assert upload.mask.to_array()[:half].all()  # every digit that counts is encrypted
        rest = upload.plain.astype(np.float64)
        assert np.abs(rest).max() > 2**24  # below the last digit nothing is as large: it is blinded


def test_a_run_of_fewer_than_the_clients_want_gets_nothing(deployment):
    with pytest.raises(
        Rejected, match="condition least_contributors: the run asks for 2 in a sum, this client requires 3"
    ):
        play(deployment.strategy(rules=ReleaseRules(2, 0.5)), deployment.loop(), rounds=1)


def test_the_in_process_server_is_refused_by_a_node_with_an_identity(deployment):
    """A ServerApp that calls itself a simulation would be sent tags and seeds."""
    grid = deployment.loop()
    with pytest.raises(Rejected, match="in-process"):
        play(SenseCrypt(client_strategy(), key_service="in-process", profile=FAST), grid, rounds=1)
    assert all(reply.has_error() for reply in grid.received)


def client_strategy():
    from flwr.serverapp.strategy import FedAvg

    return FedAvg()
