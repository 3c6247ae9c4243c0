"""What every adversary owes, and the contrasts between them, on the embedded digits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from sensecrypt.data import load_dataset
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.attacks.ladder import ADVERSARIES
from sensecrypt.lab.attacks.scores import score_labels
from sensecrypt.lab.attacks.synthetic import synthetic_client
from sensecrypt.models import find_head
from tests.lab.attacks.masks import hide_by

NAMES = ["prior", "zero-fill", "zero-fill-direction", "stale-fill", "completion"]
NAMES += ["prototype", "sensitivity", "mask-only", "value-matching"]
PLACED = NAMES[:-1]  # what they see has positions; the last has tests of its own
SEEDS = range(20)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def embedded():
    return load_dataset("digits")


def client(seed=0, **changes):
    digits = embedded()
    arguments = {"classes": 10, "samples": 30, "seed": seed, "public_per_class": 40, **changes}
    return synthetic_client("digits-mlp", digits.train_images, digits.train_labels, **arguments)


def hide(found, strategy, share=0.0):
    head = find_head(found.observation.build(), 10)
    return hide_by(strategy, found, share, head=head)


def mean_scores(adversary, strategy, share=0.0, **changes):
    """LeAcc and LnAcc over seeds; Γ is in the clear for whoever looks at it."""
    scores = []
    for seed in SEEDS:
        found = client(seed, **changes)
        seen = found.observe(hide(found, strategy, share), clear_sensitivity=True)
        scores.append(score_labels(ADVERSARIES[adversary](seen), found.counts))
    return np.mean([score.leacc for score in scores]), np.mean([score.lnacc for score in scores])


def test_the_ladder_is_complete_and_in_order():
    assert list(ADVERSARIES) == NAMES


@pytest.mark.parametrize("name", PLACED)
@pytest.mark.parametrize("strategy", ["high", "low", "random", "classifier"])
def test_every_adversary_gives_one_finite_number_a_class_and_changes_nothing(name, strategy):
    found = client(trained=1)
    seen = found.observe(hide(found, strategy, 0.3), clear_sensitivity=True)
    gradient, before = seen.gradient.tobytes(), seen.before.tobytes()
    raw = ADVERSARIES[name](seen)
    assert raw.shape == (10,)
    assert np.isfinite(raw).all()
    assert raw.tobytes() == ADVERSARIES[name](seen).tobytes()
    assert (seen.gradient.tobytes(), seen.before.tobytes()) == (gradient, before)


@pytest.mark.parametrize("name", [name for name in PLACED if name != "sensitivity"])
def test_with_everything_hidden_there_is_the_prior(name):
    found = client()
    seen = found.observe(np.ones(found.gradient.size, dtype=bool))
    assert ADVERSARIES[name](seen) == pytest.approx(np.full(10, 3.0))


def test_stale_values_count_even_with_everything_hidden():
    found = client(trained=1)
    everything = np.ones(found.gradient.size, dtype=bool)
    seen = found.observe(everything, hidden_before=~everything)
    assert np.abs(ADVERSARIES["stale-fill"](seen) - 3.0).max() > 0.5


@pytest.mark.parametrize(
    ("name", "missing", "told"),
    [
        ("stale-fill", "stale", "no stale values"),
        ("prototype", "public", "no public data"),
        ("mask-only", "public", "no public data"),
        ("sensitivity", "sensitivity", "no sensitivity"),
        ("value-matching", "unplaced", "no unplaced"),
    ],
)
def test_an_adversary_says_what_it_lacks(name, missing, told):
    found = client()
    seen = replace(found.observe(hide(found, "high", 0.3), clear_sensitivity=True), **{missing: None})
    with pytest.raises(InvalidInput, match=told):
        ADVERSARIES[name](seen)


def test_public_data_must_have_every_class():
    seen = client().observation
    inputs, labels = seen.public
    with pytest.raises(InvalidInput, match="class 7"):
        ADVERSARIES["prototype"](replace(seen, public=(inputs[labels != 7], labels[labels != 7])))


def without_bias(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10, bias=False))


@pytest.mark.parametrize("name", ["zero-fill", "zero-fill-direction", "stale-fill", "completion", "sensitivity"])
def test_a_classifier_without_bias_is_refused_by_whoever_reads_the_bias(name):
    digits = embedded()
    found = synthetic_client(without_bias, digits.train_images, digits.train_labels, classes=10, samples=20, seed=0)
    nothing = np.zeros(found.gradient.size, dtype=bool)
    with pytest.raises(InvalidInput, match="prototype"):
        ADVERSARIES[name](found.observe(nothing, clear_sensitivity=True))
    assert ADVERSARIES["prototype"](found.observation).sum() == pytest.approx(20)


def test_mask_only_looks_at_nothing_but_the_mask():
    found = client()
    seen = found.observe(hide(found, "high", 0.1))
    blind = replace(seen, gradient=np.where(seen.visible, 0.0, np.nan), stale=None)
    assert ADVERSARIES["mask-only"](seen).tobytes() == ADVERSARIES["mask-only"](blind).tobytes()


def test_zero_fill_is_ilrg_where_nothing_is_hidden_and_so_are_the_others_that_fill():
    found = client(trained=1)
    seen = found.observe(np.zeros(found.gradient.size, dtype=bool), clear_sensitivity=True)
    plain = ADVERSARIES["zero-fill"](seen)
    assert ADVERSARIES["zero-fill-direction"](seen) == pytest.approx(plain)
    assert ADVERSARIES["stale-fill"](seen) == pytest.approx(plain)
    assert ADVERSARIES["completion"](seen) == pytest.approx(plain)


def test_hiding_the_head_stops_zero_fill_but_not_prototypes():
    blind, _ = mean_scores("zero-fill", "classifier", distribution="2")
    sees, _ = mean_scores("prototype", "classifier", distribution="2")
    assert blind < 0.3
    assert sees > 0.8


def test_completion_recovers_what_zero_fill_loses():
    _, lost = mean_scores("zero-fill", "random", 0.1)
    _, recovered = mean_scores("completion", "random", 0.1)
    assert recovered > lost + 0.2


def test_clear_sensitivities_undo_full_encryption():
    _, plain = mean_scores("zero-fill", "high", 0.0, distribution="2")
    _, undone = mean_scores("sensitivity", "high", 1.0, distribution="2")
    assert plain > 0.9
    assert undone > plain - 0.05


def test_the_mask_alone_tells_the_classes_of_a_client_with_few():
    prior, _ = mean_scores("prior", "high", 0.1, distribution="2")
    told, _ = mean_scores("mask-only", "high", 0.1, distribution="2")
    assert prior == pytest.approx(0.2)
    assert told > prior + 0.3


def test_a_trained_model_defeats_plaintext_ilrg_by_itself():
    _, fresh = mean_scores("zero-fill", "high", 0.0)
    _, late = mean_scores("zero-fill", "high", 0.0, trained=200)
    assert fresh > 0.7
    assert late < 0.3


def test_the_two_ways_of_capping_differ_where_a_bias_gradient_is_hidden():
    found = client()
    bias = find_head(found.observation.build(), 10).bias
    hidden = np.zeros(found.gradient.size, dtype=bool)
    hidden[bias[:4]] = True
    seen = found.observe(hidden)
    first, second = (ADVERSARIES[name](seen) for name in ("zero-fill", "zero-fill-direction"))
    assert np.abs(first - second).max() > 0.1
