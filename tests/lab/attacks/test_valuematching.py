"""An aggregator that has values without positions, on the embedded digits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from sensecrypt.data import load_dataset
from sensecrypt.errors import InvalidInput, NotApplicable
from sensecrypt.lab.assess.peers import Peers
from sensecrypt.lab.assess.protection import Protection, expose
from sensecrypt.lab.attacks.classstats import class_statistics
from sensecrypt.lab.attacks.ladder import ADVERSARIES
from sensecrypt.lab.attacks.observation import Unplaced
from sensecrypt.lab.attacks.placing import place
from sensecrypt.lab.attacks.scores import score_labels
from sensecrypt.lab.attacks.synthetic import synthetic_client
from sensecrypt.lab.attacks.unmoved import same_numbers
from sensecrypt.models import always_encrypt

value_matching = ADVERSARIES["value-matching"]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def secret(seed=0, share=0.2, distribution="2", learning_rate=0.1):
    """A client, what the aggregator sees of it, and which parameter each of its plain slots really holds."""
    digits = load_dataset("digits")
    found = synthetic_client(
        "digits-mlp",
        digits.train_images,
        digits.train_labels,
        classes=10,
        samples=30,
        seed=seed,
        distribution=distribution,
        learning_rate=learning_rate,
        public_per_class=40,
    )
    peers = Peers(found, digits.train_images, digits.train_labels, seed=seed)
    exposed = expose(Protection("sensecrypt", "default", share, "plain"), peers)
    return found, exposed, exposed.to(found, colluding=False)


def true_parameter(found, unplaced, slot):
    """Positions whose upload is this very number."""
    uploaded = np.rint(found.weights.astype(np.float64) / unplaced.step)
    return np.flatnonzero(uploaded == np.rint(unplaced.values[slot] / unplaced.step))


def test_what_is_seen_are_the_plain_weights_in_fixed_point_and_no_positions():
    found, exposed, seen = secret()
    assert not seen.visible.any()
    plain = found.weights[~exposed.hidden].astype(np.float64)
    assert seen.unplaced.values.size == plain.size
    assert np.abs(np.sort(seen.unplaced.values) - np.sort(plain)).max() <= 0.5001 * seen.unplaced.step
    assert not np.allclose(seen.unplaced.values, plain, atol=1e-3)  # not in natural order
    assert seen.unplaced.others.shape == (4, plain.size)
    assert exposed.to(found, colluding=True).unplaced is None
    assert not (seen.unplaced.possible & always_encrypt(seen.build(), 10)).any()


def test_a_client_of_several_steps_shows_where_they_led_and_its_peers_are_not_guessed():
    digits = load_dataset("digits")
    found = synthetic_client(
        "digits-mlp", digits.train_images, digits.train_labels, classes=10, samples=30, seed=1, steps=3, minibatch=10
    )
    assert (found.observation.before - found.weights) / found.scale == pytest.approx(found.gradient, abs=1e-5)
    peers = Peers(found, digits.train_images, digits.train_labels, seed=1)
    seen = expose(Protection("sensecrypt", "default", 0.2, "plain"), peers).to(found, colluding=False)
    assert seen.unplaced.others.shape[0] == 0
    assert value_matching(seen).sum() == pytest.approx(30)


def test_numbers_that_did_not_move_are_found_and_few_others_are():
    found, exposed, seen = secret()
    hit, chance = same_numbers(seen.before.astype(np.float64), seen.unplaced)
    unmoved = (found.weights == seen.before) & ~exposed.hidden
    assert unmoved.sum() > 100
    assert hit[unmoved].all()
    assert hit[~unmoved].mean() == pytest.approx(chance[~unmoved].mean(), abs=0.03)


def test_values_are_placed_where_they_belong():
    found, _, seen = secret(learning_rate=0.01)
    shares = found.counts / found.counts.sum()
    placed = place(seen, seen.unplaced, class_statistics(seen), shares, doubt=0.03, spread=0.1)
    assert placed.parameters.size > 0.3 * seen.unplaced.values.size
    assert np.unique(placed.parameters).size == placed.parameters.size
    right = [
        parameter in true_parameter(found, seen.unplaced, slot)
        for parameter, slot in zip(placed.parameters, placed.slots, strict=True)
    ]
    assert np.mean(right) > 0.95


def test_statistics_are_those_of_single_samples():
    _, _, seen = secret()
    statistics = class_statistics(seen)
    inputs, labels = seen.public
    members = inputs[labels == 3]
    model = seen.model()
    rows = []
    for sample in members:
        model.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(model(sample[None]), torch.tensor([3])))
        rows.append(np.concatenate([parameter.grad.numpy().ravel() for parameter in model.parameters()]))
    assert statistics.mean[3] == pytest.approx(np.mean(rows, axis=0), abs=1e-6)
    assert statistics.variance[3] == pytest.approx(np.var(rows, axis=0, ddof=1), abs=1e-5)
    assert statistics.zeros[3].tolist() == (np.array(rows) == 0).sum(axis=0).tolist()
    assert statistics.samples.tolist() == [40] * 10


@pytest.mark.parametrize(("share", "learning_rate"), [(0.2, 0.1), (0.2, 0.01), (0.5, 0.1)])
def test_a_secret_order_does_not_keep_the_classes_secret(share, learning_rate):
    found = [secret(seed, share, "1", learning_rate) for seed in range(8)]
    scores = [score_labels(value_matching(seen), client.counts) for client, _, seen in found]
    assert np.mean([score.top1 for score in scores]) > 0.4  # guessing: 0.1
    assert np.mean([score.leacc for score in scores]) > 0.4  # guessing: 0.1


def test_with_everything_encrypted_there_is_the_prior():
    _, _, seen = secret(share=1.0)
    assert seen.unplaced.values.size == 0
    assert value_matching(seen) == pytest.approx(np.full(10, 3.0))


def test_it_says_what_it_lacks():
    found, _, seen = secret()
    with pytest.raises(NotApplicable, match="no unplaced"):
        value_matching(found.observation)
    with pytest.raises(NotApplicable, match="no public data"):
        value_matching(replace(seen, public=None))
    inputs, labels = seen.public
    with pytest.raises(NotApplicable, match="class 7"):
        value_matching(replace(seen, public=(inputs[labels != 7], labels[labels != 7])))


def test_it_changes_nothing_and_repeats_itself():
    _, _, seen = secret()
    values = seen.unplaced.values.tobytes()
    assert value_matching(seen).tobytes() == value_matching(seen).tobytes()
    assert seen.unplaced.values.tobytes() == values


def test_parts_that_do_not_belong_together_are_refused():
    _, _, seen = secret()
    parts = vars(seen.unplaced)
    with pytest.raises(InvalidInput, match="others"):
        Unplaced(**{**parts, "others": np.zeros((2, 3))})
    with pytest.raises(InvalidInput, match="values"):
        Unplaced(**{**parts, "possible": np.zeros_like(parts["possible"])})
    with pytest.raises(InvalidInput, match="step"):
        Unplaced(**{**parts, "step": 0.0})
    short = Unplaced(**{**parts, "possible": np.ones(seen.before.size + 1, dtype=bool)})
    with pytest.raises(InvalidInput, match="unplaced"):
        replace(seen, unplaced=short)
