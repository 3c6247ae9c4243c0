from __future__ import annotations

import numpy as np
import pytest

from sensecrypt.data import load_dataset
from sensecrypt.lab.attacks.cohort import client_of_round
from sensecrypt.lab.attacks.synthetic import samples_at
from sensecrypt.lab.experiments import uneven_rounds
from sensecrypt.lab.experiments.uneven_rounds import MASK, NOTHING, OURS, SENSE, agreed_mask, rounds
from sensecrypt.models import build_model, get_vector

DIGITS = load_dataset("digits")
SETTINGS = {"kinds": ["iid", "1"], "clients": 10, "samples": 30, "share": 0.1, "learning_rate": 0.2, "seed": 4}


def measured(reading="whole", steps=1, **changes):
    settings = {**SETTINGS, "attacks": ["zero-fill", "sensitivity"], **changes}
    return list(rounds("digits-mlp", DIGITS, reading=reading, steps=steps, **settings))


def mean(rows, key, **which):
    return np.mean([row[key] for row in rows if all(row[name] == value for name, value in which.items())])


def test_every_client_is_attacked_in_every_round_under_every_method():
    rows = measured()
    seen = {(row["round"], row["client"], row["method"], row["adversary"]) for row in rows}
    assert len(seen) == len(rows) == 2 * 10 * (3 * 2 + 1)  # Γ is in the clear with SenseCrypt only
    assert {row["method"] for row in rows if row["adversary"] == "sensitivity"} == {SENSE}
    for method in (MASK, SENSE):
        assert mean(rows, "share", method=method) == pytest.approx(0.1, abs=1e-3)


def test_guessing_tells_what_a_batch_holds():
    whole, drawn = measured(), measured("drawn", 2)
    assert mean(whole, "lnacc", method=NOTHING, adversary="prior", classes="iid") == 1.0  # equal splits
    for kind in ("iid", "1"):
        assert mean(whole, "leacc", method=NOTHING, adversary="prior", classes=kind) == 1.0
    assert mean(drawn, "leacc", method=NOTHING, adversary="prior", classes="1") < 0.6  # strays are seldom drawn


def test_the_model_is_trained_on_from_round_to_round(monkeypatch):
    starts = []

    def spy(build, before, *arguments, **others):
        starts.append(before)
        return client_of_round(build, before, *arguments, **others)

    monkeypatch.setattr(uneven_rounds, "client_of_round", spy)
    measured("drawn", 5)
    assert len(starts) == 20
    assert all((start == starts[0]).all() for start in starts[:10])
    assert all((start == starts[10]).all() for start in starts[10:])
    assert np.abs(starts[10] - starts[0]).max() > 1e-3


def test_maskcrypt_has_one_mask_of_what_differs_most_from_what_is_exposed():
    before = get_vector(build_model("digits-mlp", seed=1))
    data = samples_at(DIGITS.train_images, DIGITS.train_labels, np.arange(20))

    def build():
        return build_model("digits-mlp", seed=1)

    client = client_of_round(build, before, data, classes=10, learning_rate=0.1)
    mask = agreed_mask(before, [client.weights], [client], 0.1)
    assert mask.sum() == round(0.1 * before.size)
    squares = client.gradient**2  # of one step from what is exposed
    assert squares[mask].min() >= squares[~mask].max() * (1 - 1e-3)
    elsewhere = before.copy()
    quiet = int(np.argmin(np.where(client.gradient > 0, client.gradient, np.inf)))
    elsewhere[quiet] += 1e6
    assert not mask[quiet]
    assert agreed_mask(elsewhere, [client.weights], [client], 0.1)[quiet]


def test_stronger_attackers_are_for_some_clients_and_the_secret_order_too():
    rows = measured(kinds=["5", "1"], strong=("prototype", "value-matching"), strong_clients=1)
    strong = [row for row in rows if row["adversary"] in ("prototype", "value-matching")]
    assert {row["client"] for row in strong} == {0}
    assert {row["method"] for row in strong if row["adversary"] == "value-matching"} == {OURS}
    assert {row["method"] for row in strong if row["adversary"] == "prototype"} == {NOTHING, MASK, SENSE, OURS}


def test_the_same_seed_gives_the_same_rows():
    assert measured() == measured()
    assert measured() != measured(seed=5)
