"""The wrapped strategy gives what it gives without us."""

from __future__ import annotations

import random

import numpy as np
import pytest
from flwr.clientapp.mod import fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    FedYogi,
)

from sensecrypt.flower import sensecrypt_mod
from tests.flower.loop import Loop, client_app, largest_difference, plain, play, protected

STRATEGIES = {
    "FedAvg": lambda: FedAvg(),
    "FedAvgM": lambda: FedAvgM(server_momentum=0.9, server_learning_rate=0.7),
    "FedAdam": lambda: FedAdam(eta=0.1, beta_1=0.9, beta_2=0.99),
    "FedAdagrad": lambda: FedAdagrad(eta=0.1),
    "FedYogi": lambda: FedYogi(eta=0.1, beta_1=0.9, beta_2=0.99),
    "FedProx": lambda: FedProx(proximal_mu=0.1),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_model_and_metrics_as_without_encryption(name):
    expected, found = plain(STRATEGIES[name]()), play(protected(STRATEGIES[name]()))
    assert largest_difference(expected, found) < (1e-5 if name in ("FedAdam", "FedYogi", "FedAdagrad") else 1e-6)
    assert expected.train_metrics_clientapp == found.train_metrics_clientapp
    for number, metrics in expected.evaluate_metrics_clientapp.items():
        assert found.evaluate_metrics_clientapp[number]["accuracy"] == pytest.approx(metrics["accuracy"], abs=1e-5)


def test_arrays_keep_their_keys_shapes_and_dtypes():
    expected, found = plain(FedAvg(), rounds=1), play(protected(), rounds=1)
    for key, array in expected.arrays.items():
        assert (found.arrays[key].dtype, found.arrays[key].shape) == (array.dtype, array.shape), key
    assert found.arrays["batches"].numpy() == 3  # whole numbers come out whole


def test_the_same_nodes_are_sampled():
    def sampled(strategy, app):
        random.seed(3)
        grid = Loop(app, nodes=12)
        play(strategy, grid, rounds=3)
        return [(m.metadata.dst_node_id, m.metadata.message_type) for m in grid.sent]

    some = {"fraction_train": 0.4, "min_available_nodes": 12}
    assert sampled(FedAvg(**some), client_app(mods=())) == sampled(protected(FedAvg(**some)), client_app())


@pytest.mark.parametrize("least", [4, 50])
def test_few_examples_among_many_members_weigh_exactly(least):
    """The weight of a client is few millionths of what its coordinate could hold."""
    examples = lambda node: least + node % 7  # noqa: E731
    nodes = {"nodes": 30}
    expected = plain(FedAvg(), examples=examples, rounds=1, **nodes)
    found = play(protected(), Loop(client_app(examples=examples), **nodes), rounds=1)
    assert largest_difference(expected, found) < 1e-6


def test_whoever_is_missing_the_mean_is_that_of_the_others():
    gone = (101, 103)
    lost = Loop(client_app(), nodes=6, before=lambda node, message: None if node in gone else message)
    other = Loop(client_app(mods=()), nodes=6, before=lambda node, message: None if node in gone else message)
    assert largest_difference(play(FedAvg(), other), play(protected(), lost)) < 1e-6


@pytest.mark.parametrize("inside", [True, False])
def test_clipping_on_the_client_goes_inside_or_outside(inside):
    def wrapped(strategy):
        return DifferentialPrivacyClientSideFixedClipping(strategy, 0.0, 0.5, 5)

    expected = play(wrapped(FedAvg()), Loop(client_app(mods=(fixedclipping_mod,))))
    strategy = protected(wrapped(FedAvg())) if inside else wrapped(protected())
    found = play(strategy, Loop(client_app(mods=(sensecrypt_mod, fixedclipping_mod))))
    assert largest_difference(expected, found) < 1e-6


def test_part_of_the_model_is_encrypted_and_the_rest_blinded():
    sizes = []

    def note(node, reply):
        sizes.append(len(reply.content["arrays"]["upload"].data))
        return reply

    found = play(protected(encrypt=0.3), Loop(after=note), rounds=3)
    assert largest_difference(plain(FedAvg(), rounds=3), found) < 1e-6
    assert max(sizes[5:]) < min(sizes[:5])


def test_sensitivities_of_the_apps_own_choose_what_is_encrypted():
    asked = []

    def sensitivity(arrays, update):
        asked.append({key: array.shape for key, array in update.items()})
        return {key: np.ones_like(array) for key, array in arrays.items()}

    play(protected(encrypt=0.5, sensitivity=sensitivity))
    assert asked[0]["weight"] == (7, 5)


def test_a_second_start_is_another_run():
    strategy, grid = protected(), Loop()
    one = play(strategy, grid, rounds=1)
    two = play(strategy, grid, rounds=1)
    assert largest_difference(one, two) < 1e-6
