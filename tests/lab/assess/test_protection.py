"""What policies leave visible of a synthetic client."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sensecrypt.data import load_dataset
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.assess.labels import judge, label_rows
from sensecrypt.lab.assess.peers import Peers
from sensecrypt.lab.assess.protection import Protection, expose
from sensecrypt.lab.assess.setting import Setting
from sensecrypt.lab.attacks.synthetic import synthetic_client
from sensecrypt.models import always_encrypt, find_head
from sensecrypt.policies import POLICIES


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def client(digits):
    return synthetic_client(
        "digits-mlp", digits.train_images, digits.train_labels, classes=10, samples=20, seed=3, distribution="2"
    )


def exposed(policy, preset, share, client, digits, rest="plain"):
    peers = Peers(client, digits.train_images, digits.train_labels, seed=0)
    return expose(Protection(policy, preset, share, rest), peers)


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"plaintext", "full", "maskcrypt_union"}))
def test_a_policy_hides_the_share_it_is_given(policy, client, digits):
    seen = exposed(policy, "paper", 0.2, client, digits)
    assert seen.hidden.mean() == pytest.approx(0.2, abs=0.001)


def test_the_ends(client, digits):
    assert not exposed("plaintext", "paper", 0.5, client, digits).hidden.any()
    assert exposed("full", "default", 0.5, client, digits).hidden.all()
    assert exposed("sensecrypt", "default", 1.0, client, digits).hidden.all()


def test_the_default_preset_hides_the_classifier_and_the_order(client, digits):
    seen = exposed("sensecrypt", "default", 0.01, client, digits)
    model = client.observation.build()
    assert seen.hidden[always_encrypt(model, 10)].all()
    assert seen.secret_order
    assert not seen.clear_sensitivity
    alone, together = seen.to(client, colluding=False), seen.to(client, colluding=True)
    assert not alone.visible.any()
    assert np.array_equal(together.visible, ~seen.hidden)
    assert not seen.under_covered.any()  # peers encrypt the same prefix


def test_the_papers_preset_shows_what_it_shows(client, digits):
    seen = exposed("sensecrypt", "paper", 0.05, client, digits)
    assert not seen.secret_order
    assert seen.clear_sensitivity
    assert seen.to(client, colluding=False).sensitivity is not None
    assert 0 < seen.under_covered.sum() < seen.hidden.sum()
    assert seen.to(client, colluding=True).visible.sum() == (~seen.hidden).sum() + seen.under_covered.sum()


def test_one_mask_for_all_has_nothing_under_covered(client, digits):
    for policy in ("maskcrypt", "fedml_he"):
        assert not exposed(policy, "paper", 0.1, client, digits).under_covered.any()


def test_rows_do_not_depend_on_the_number_of_processes(digits):
    setting = Setting(
        model="digits-mlp",
        images=digits.train_images,
        labels=digits.train_labels,
        classes=10,
        samples=10,
        protections=[Protection("high_sensitivity", "paper", 0.1)],
        adversaries=["prior", "zero-fill", "prototype"],
    )
    torch.set_num_threads(1)  # as in the workers: sums of floats depend on it
    one = label_rows(setting, distributions=["iid"], seeds=3)
    assert one == label_rows(setting, distributions=["iid"], seeds=3, workers=2)
    assert {each.adversary for each in judge(setting, "iid", 0)} == {"prior", "zero-fill", "prototype"}
    with pytest.raises(InvalidInput):
        Setting(**{**vars(setting), "adversaries": ["nobody"]})


def test_the_classifier_is_where_the_head_is(client):
    head = find_head(client.observation.build(), 10)
    always = always_encrypt(client.observation.build(), 10)
    assert always[head.weight.ravel()].all()
    assert always[head.bias].all()


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("colluding", [False, True])
def test_of_a_blinded_rest_only_the_mask_is_left_and_only_where_it_is_known(policy, colluding, client, digits):
    seen = exposed(policy, "default", 0.2, client, digits, rest="blinded")
    assert not seen.under_covered.any()
    view = seen.to(client, colluding=colluding)
    assert not view.visible.any()
    assert np.isnan(view.stale).all()
    assert view.unplaced is None
    if seen.secret_order and not colluding:
        assert view.mask is None
    else:
        assert np.array_equal(view.mask, seen.hidden)


def test_presets_say_whether_the_rest_is_blinded():
    assert Protection("sensecrypt", "default", 0.2).blinded
    assert not Protection("sensecrypt", "paper", 0.2).blinded
    assert not Protection("plaintext", "default", 0.0).blinded
    assert Protection("plaintext", "default", 0.0, "blinded").blinded
    assert Protection("sensecrypt", "paper", 0.2, "blinded").blinded
    with pytest.raises(InvalidInput, match="rest"):
        Protection("sensecrypt", "paper", 0.2, "gone").blinded  # noqa: B018  (it is the asking that fails)


def test_known_masks_reveal_classes_although_the_rest_is_blinded(digits):
    """Blinding hides values. A client's own mask is still as good as its labels."""
    setting = Setting(
        model="digits-mlp",
        images=digits.train_images,
        labels=digits.train_labels,
        classes=10,
        samples=30,
        protections=[Protection("high_sensitivity", "paper", 0.1, "blinded"), Protection("sensecrypt", "default", 0.1)],
        adversaries=["prior", "zero-fill", "prototype", "value-matching", "mask-only", "collusion"],
    )
    rows = label_rows(setting, distributions=["1"], seeds=6)
    found = {(row["policy"], row["adversary"]): row["top1"] for row in rows}
    assert found["high_sensitivity", "mask-only"] > 0.8
    guess = found["sensecrypt", "prior"]
    for adversary in ("zero-fill", "prototype", "mask-only", "collusion"):
        assert found["sensecrypt", adversary] == guess
    assert ("sensecrypt", "value-matching") not in found  # it has no value to match
