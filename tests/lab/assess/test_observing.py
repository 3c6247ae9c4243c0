"""What an adversary saw, from a run's own messages: never more, never less."""

from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.config import make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.assess.observing import observe_run
from sensecrypt.protocol.envelope import parse_any
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.run import run_local

SMALL = {
    "clients": 6,
    "partition": "iid",
    "rounds": 2,
    "profile": "insecure-test",
    "workers": 1,
    "clustering": "none",
    "messages": "keep",
    "budget": "paper",
    "rest": "plain",
    "max_mi": -1,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made = {}

    def play(**settings):
        key = str(sorted(settings.items()))
        if key not in made:
            made[key] = RunFolder(tmp_path_factory.mktemp("run") / "run")
            run_local(make_config({**SMALL, **settings}), made[key])
        return made[key]

    return play


def sent_by(folder, number, client):
    """The update that a client encoded."""
    return parse_any(folder.message(number, f"own-{client}"), "own")[1]["sent"].astype(np.float64)


def true_gradient(folder, number, client):
    config = folder.read_config()
    observed = observe_run(folder, number=number, client=client, adversary="aggregator+client")
    steps = config.training.local_epochs * -(-observed.observation.samples // config.training.batch_size)
    return -sent_by(folder, number, client) / (config.training.learning_rate * steps)


@pytest.mark.parametrize("adversary", ["eavesdropper", "aggregator", "aggregator+client"])
def test_without_encryption_the_first_round_is_an_open_book(runs, adversary):
    folder = runs(policy="plaintext")
    observed = observe_run(folder, number=0, client=2, adversary=adversary)
    assert observed.attributed == 1.0
    assert np.allclose(observed.observation.gradient, true_gradient(folder, 0, 2), atol=1e-4)
    assert observed.counts.sum() == observed.observation.samples


def test_later_rounds_are_open_to_whoever_sees_the_sums(runs):
    folder = runs(policy="plaintext")
    for adversary in ("aggregator", "aggregator+client"):
        observed = observe_run(folder, number=1, client=2, adversary=adversary)
        assert np.allclose(observed.observation.gradient, true_gradient(folder, 1, 2), atol=1e-3)
        assert observed.observation.stale is not None
    whole = runs(policy="plaintext", uploads="weights")  # an update is a gradient by itself, a model is not
    assert observe_run(whole, number=1, client=2, adversary="eavesdropper").attributed == 0.0
    assert observe_run(folder, number=1, client=2, adversary="eavesdropper").attributed == 1.0


@pytest.mark.parametrize("policy", ["plaintext", "sensecrypt"])
def test_where_the_server_weighs_the_same_is_seen(runs, policy):
    weighed = {"weighting": "server", "profile": "paillier-2048-slot64", "layout": "blocks", "policy": policy}
    for number in (0, 1):
        folder = runs(**weighed)
        observed = observe_run(folder, number=number, client=2, adversary="aggregator+client")
        known = ~np.isnan(observed.observation.gradient)
        assert known.any()
        assert np.allclose(observed.observation.gradient[known], true_gradient(folder, number, 2)[known], atol=1e-3)


def test_what_is_encrypted_is_not_seen(runs):
    folder = runs(layout="blocks")
    observed = observe_run(folder, number=0, client=1, adversary="aggregator")  # client 0's budget is 1
    assert 0 < observed.encrypted < 1
    assert observed.attributed == pytest.approx(1 - observed.encrypted)
    assert np.array_equal(np.nan_to_num(observed.observation.gradient, nan=7.0) != 7.0, observed.observation.visible)
    assert observe_run(runs(policy="full"), number=0, client=0, adversary="aggregator").attributed == 0.0


def test_a_secret_order_leaves_the_aggregator_nothing_to_attribute_but_not_a_member(runs):
    folder = runs(layout="prefix", objective="balance")
    alone = observe_run(folder, number=0, client=4, adversary="aggregator")
    assert 0 < alone.encrypted < 1
    assert alone.attributed == 0.0
    together = observe_run(folder, number=0, client=4, adversary="aggregator+client")
    assert together.attributed == pytest.approx(1 - together.encrypted)
    visible = together.observation.visible
    assert np.allclose(together.observation.gradient[visible], true_gradient(folder, 0, 4)[visible], atol=1e-4)


def test_a_secret_order_leaves_the_aggregator_the_values_of_the_message(runs):
    folder = runs(layout="prefix", objective="balance", uploads="weights")
    order = parse_any(folder.message(0, "members-0"), "members")[1]["order"]
    carried = parse_any(folder.message(0, "upload-4"), "upload")[1]["plain"].astype(np.int64)
    for adversary, rows in (("aggregator", None), ("eavesdropper", 0)):
        seen = observe_run(folder, number=0, client=4, adversary=adversary)
        unplaced = seen.observation.unplaced
        assert np.array_equal(np.rint(unplaced.values / unplaced.step).astype(np.int64), carried)
        plain = order[order.size - carried.size :]
        assert np.abs(unplaced.values - sent_by(folder, 0, 4)[plain]).max() <= 0.5001 * unplaced.step
        assert unplaced.possible[plain].all()
        assert not unplaced.possible.all()  # the classifier never is plain
        assert rows is None or len(unplaced.others) == rows
    widest = max(
        range(6), key=lambda client: observe_run(folder, number=0, client=client, adversary="eavesdropper").encrypted
    )
    unplaced = observe_run(folder, number=0, client=widest, adversary="aggregator").observation.unplaced
    slots = order[order.size - unplaced.values.size :]
    others = [sent_by(folder, 0, client)[slots] for client in range(6) if client != widest]
    assert unplaced.others == pytest.approx(np.array(others), abs=1e-6)


def test_there_are_no_unplaced_values_where_positions_are_known(runs):
    for folder in (runs(layout="blocks"), runs(policy="plaintext")):
        assert observe_run(folder, number=0, client=0, adversary="aggregator").observation.unplaced is None
    together = observe_run(
        runs(layout="prefix", objective="balance"), number=0, client=4, adversary="aggregator+client"
    )
    assert together.observation.unplaced is None


def test_lonely_ciphertexts_are_read_by_subtraction_and_the_default_layout_has_none(runs):
    lonely = runs(layout="blocks", objective="balance", always_encrypt="nothing")
    shares = []
    for client in range(6):
        observed = observe_run(lonely, number=0, client=client, adversary="aggregator+client")
        visible = observed.observation.visible
        assert np.allclose(observed.observation.gradient[visible], true_gradient(lonely, 0, client)[visible], atol=1e-3)
        shares.append(observed.recovered)
    assert max(shares) > 0
    prefix = runs(layout="prefix")
    for client in range(6):
        assert observe_run(prefix, number=1, client=client, adversary="aggregator+client").recovered == 0.0


def test_sensitivities_in_the_clear_are_seen_and_sketches_are_not(runs):
    clear = runs(sensitivities="clear", clustering="auto")
    assert observe_run(clear, number=0, client=0, adversary="aggregator").observation.sensitivity is not None
    assert observe_run(clear, number=0, client=0, adversary="eavesdropper").observation.sensitivity is None
    by_k_means = runs(sensitivities="clear", clustering="k-means")
    assert observe_run(by_k_means, number=0, client=0, adversary="aggregator").observation.sensitivity is not None
    sketched = runs(clustering="auto")
    assert observe_run(sketched, number=0, client=0, adversary="aggregator").observation.sensitivity is None


def test_mistakes_are_told(runs, tmp_path):
    folder = RunFolder(tmp_path / "run")
    run_local(make_config({**SMALL, "messages": "forget", "rounds": 1}), folder)
    with pytest.raises(InvalidInput, match="messages=keep"):
        observe_run(folder, number=0, client=0, adversary="aggregator")
    kept = runs(policy="plaintext")
    with pytest.raises(InvalidInput, match="round"):
        observe_run(kept, number=9, client=0, adversary="aggregator")
    with pytest.raises(InvalidInput, match="client"):
        observe_run(kept, number=0, client=99, adversary="aggregator")
    with pytest.raises(InvalidInput, match="adversary"):
        observe_run(kept, number=0, client=0, adversary="nobody")


@pytest.mark.parametrize("layout", ["prefix", "blocks"])
@pytest.mark.parametrize("adversary", ["eavesdropper", "aggregator", "aggregator+client"])
def test_of_a_blinded_rest_nobody_sees_anything_but_the_mask(runs, layout, adversary):
    folder = runs(layout=layout, objective="balance", rest="blinded")
    for number in (0, 1):
        observed = observe_run(folder, number=number, client=4, adversary=adversary)
        assert 0 < observed.encrypted < 1
        assert (observed.attributed, observed.recovered) == (0.0, 0.0)
        seen = observed.observation
        assert seen.unplaced is None
        assert not seen.visible.any()
        assert seen.stale is None or np.isnan(seen.stale).all()
        secret = layout == "prefix" and adversary != "aggregator+client"
        assert (seen.mask is None) == secret
        assert secret or seen.mask.mean() == pytest.approx(observed.encrypted)


def test_what_a_blinded_message_carries_has_nothing_of_the_weights(runs):
    settings = {"layout": "prefix", "objective": "balance"}
    plain, blinded = runs(**settings), runs(**settings, rest="blinded")
    assert np.array_equal(sent_by(plain, 0, 4), sent_by(blinded, 0, 4))
    order = parse_any(blinded.message(0, "members-0"), "members")[1]["order"]
    told = {}
    for name, folder in (("plain", plain), ("blinded", blinded)):
        carried = parse_any(folder.message(0, "upload-4"), "upload")[1]["plain"].astype(np.float64)
        true = sent_by(folder, 0, 4)[order[order.size - carried.size :]]
        told[name] = abs(np.corrcoef(carried, true)[0, 1])
    assert told["plain"] > 0.999
    assert told["blinded"] < 0.15


def test_blinded_and_plain_runs_end_with_the_same_models(runs):
    settings = {"layout": "blocks", "objective": "balance"}
    first, second = (runs(**settings, **more) for more in ({}, {"rest": "blinded"}))
    for number in (0, 1):
        one, other = (parse_any(each.message(number, "released-0"), "released")[1]["model"] for each in (first, second))
        assert np.array_equal(one, other)
