"""What one client computes before and in a round: where its gradient is taken, and what noise goes on top."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sensecrypt import generate_keypair
from sensecrypt.algo.dp import gaussian_sigma
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.algo.sketching import sketch
from sensecrypt.client import scoring, update
from sensecrypt.client.context import ClientContext
from sensecrypt.client.problem import configured_problem
from sensecrypt.client.scoring import Described, clustering_gains, describe_gains, rank_parameters, train_locally
from sensecrypt.client.update import Task, Trained, make_update, propose_blocks, train_and_score
from sensecrypt.config import make_config
from sensecrypt.models import get_vector, mean_gradient, set_vector
from sensecrypt.policies import get_policy
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.messages import Proposal
from sensecrypt.protocol.round import Round

SEED = b"a seed of sixteen bytes, or more"
KEY = generate_keypair("insecure-test")[0]


def make_context(**settings) -> ClientContext:
    torch.set_num_threads(1)
    small = {"clients": 4, "partition": "iid", "profile": "insecure-test", "layout": "blocks", "sensitivity_samples": 0}
    config = make_config({**small, **settings})
    problem = configured_problem(config)
    data = dict(enumerate(problem.clients))
    return ClientContext(config, problem.build, data, KEY, layers=None)


def initial(context):
    return get_vector(context.build())


def describe(context, vector, sketch_seed=None) -> Described:
    """What client 0 sends for clustering."""
    return describe_gains(*clustering_gains(context, 0, vector), sketch_seed)


def gradient_at(context, vector, client=0):
    model = context.build()
    set_vector(model, vector)
    return mean_gradient(model, *context.data[client])


def make_task(context, **changes) -> Task:
    vector = initial(context)
    weights = dict.fromkeys(range(4), 0.25)
    round_ = Round("local", 0, 0, "model", vector.size, get_profile("insecure-test"), weights, 0)
    exposed = np.zeros_like(vector)
    task = Task(0, round_, vector, None, None, exposed, 0.5, SEED, None)
    return replace(task, **changes)


@pytest.fixture
def seen(monkeypatch):
    """The situations that a policy is asked about."""
    found = []
    build = update._situation

    def watch(*arguments):
        found.append(build(*arguments))
        return found[-1]

    monkeypatch.setattr(update, "_situation", watch)
    return found


@pytest.fixture
def protected(monkeypatch):
    """The sensitivities that are encrypted for an order."""
    found = []
    protect = update.protect_sensitivity

    def watch(gains, *arguments, **keywords):
        found.append(gains)
        return protect(gains, *arguments, **keywords)

    for module in (update, scoring):
        monkeypatch.setattr(module, "protect_sensitivity", watch)
    return found


class TestGradient:
    @pytest.mark.parametrize("where", ["start", "trained"])
    def test_everything_in_a_round_follows_it(self, seen, protected, where):
        context = make_context(gradient=where, policy="sensecrypt")
        task = make_task(context)
        after = replace(task.round, number=1, purpose="sensitivity")
        done = make_update(context, replace(task, refresh=(after, SEED)))
        [situation] = seen
        scored = task.vector if where == "start" else situation.weights
        expected = sensitivity(scored, gradient_at(context, scored)).astype(np.float64)
        assert not np.array_equal(situation.weights, task.vector)
        assert np.array_equal(situation.sensitivity, expected)
        [refreshed] = protected
        assert np.array_equal(refreshed, expected)
        mask = get_policy("sensecrypt").choose(situation).mask
        assert done.facts.coverage == mask.coverage(expected)

    @pytest.mark.parametrize("where", ["start", "trained"])
    def test_maskcrypt_keeps_its_trained_weights(self, seen, where):
        context = make_context(gradient=where, policy="maskcrypt")
        task = make_task(context)
        trained = train_and_score(context, task)
        message, _ = propose_blocks(context, task, trained)
        [situation] = seen
        proposed = Proposal.from_bytes(message, task.round)
        assert np.array_equal(proposed.blocks, get_policy("maskcrypt").propose(situation))
        trained = trained.weights
        assert np.array_equal(situation.weights, trained)
        assert not np.array_equal(trained, task.vector)
        scored = task.vector if where == "start" else trained
        assert np.array_equal(situation.gradient, gradient_at(context, scored))

    @pytest.mark.parametrize("where", ["start", "trained"])
    def test_a_method_without_gradients_tells_its_coverage_by_it(self, where):
        context = make_context(gradient=where, policy="random")
        task = make_task(context)
        done = make_update(context, task)
        trained, _ = train_locally(context, 0, task.vector, 0)
        scored = task.vector if where == "start" else trained
        situation = update._situation(context, task, Trained(trained, None, {}))
        mask = get_policy("random").choose(situation).mask
        assert done.facts.coverage == mask.coverage(sensitivity(scored, gradient_at(context, scored)).astype(float))

    def test_what_is_kept_of_one_is_not_taken_for_the_other(self, tmp_path):
        shares = {}
        for where in ("start", "trained"):
            cached = replace(make_context(gradient=where), cache=tmp_path)
            own = make_context(gradient=where)
            gains = [train_and_score(each, make_task(each)).gradient for each in (cached, own)]
            assert np.array_equal(*gains)
            shares[where] = gains[0]
        assert not np.array_equal(shares["start"], shares["trained"])

    def test_the_other_settings_reach_the_policy_too(self, seen):
        context = make_context(beta="2,3", bins=7, normalise="feasible")
        make_update(context, make_task(context))
        assert (seen[0].beta, seen[0].bins, seen[0].normalise) == ((2.0, 3.0), 7, "feasible")


class TestClustering:
    def test_at_the_initial_model_nobody_trains(self):
        context = make_context()
        described = describe(context, initial(context))
        expected = sensitivity(initial(context), gradient_at(context, initial(context)))
        assert np.array_equal(described.row, expected.astype(np.float64))
        assert described.facts.train_seconds is None

    def test_after_an_iteration_of_training(self):
        context = make_context(clustering_gradient="trained")
        described = describe(context, initial(context))
        trained, _ = train_locally(context, 0, initial(context), -1)
        assert np.array_equal(described.row, sensitivity(trained, gradient_at(context, trained)).astype(np.float64))
        assert described.facts.train_seconds > 0


class TestNoise:
    def test_noise_on_the_vector_has_the_length_that_the_appendix_gives_it(self):
        context = make_context(sensitivity_epsilon=1.0, sensitivity_clip=0.01)
        vector = initial(context)
        row = describe(context, vector).row
        clean = sensitivity(vector, gradient_at(context, vector)).astype(np.float64)
        assert np.linalg.norm(clean) > 0.01
        noise = row - clean * 0.01 / np.linalg.norm(clean)
        assert np.std(noise) == pytest.approx(gaussian_sigma(1.0) * 0.01, rel=0.1)
        assert not np.array_equal(row, describe(context, vector).row)

    def test_noise_for_a_sample_shrinks_with_their_number(self):
        context = make_context(sensitivity_epsilon=1.0, sensitivity_clip=10.0, sensitivity_noise="sample")
        vector, total = initial(context), len(context.data[0][1])
        described = describe(context, vector)
        clean = sensitivity(vector, gradient_at(context, vector)).astype(
            np.float64
        )  # nothing is so long as to be clipped
        assert np.std(described.row - clean) == pytest.approx(gaussian_sigma(1.0) * 2 * 10.0 / total, rel=0.1)
        assert described.facts.pass_seconds is None  # of single gradients: budgets are not to go by it

    def test_one_sample_moves_what_is_noised_by_two_clips_at_most(self):
        clip = 0.02
        context = make_context(sensitivity_epsilon=1.0, sensitivity_clip=clip, sensitivity_noise="sample")
        images, labels = context.data[0]
        other = images.clone()
        other[0] = 1e3 * torch.rand_like(images[0])
        changed = replace(context, data={0: (other, labels)})
        means = [np.abs(scoring._clipped_mean(each, 0, initial(each), clip)[0]) for each in (context, changed)]
        assert 0 < np.linalg.norm(means[0] - means[1]) <= 2 * clip / len(labels) * 1.001

    def test_a_sketch_is_made_of_what_is_noised(self, monkeypatch):
        context = make_context(sensitivity_epsilon=1.0)
        sent = np.arange(2410.0)
        monkeypatch.setattr(scoring, "dp_noise", lambda *_, **__: sent)
        assert np.array_equal(describe(context, initial(context), SEED).row, sketch(sent, seed=SEED))

    def test_the_encrypted_order_has_none(self, protected):
        context = make_context(sensitivity_epsilon=1.0)
        task = make_task(context)
        rank_parameters(context, 0, task.vector, task.round, SEED)
        assert np.array_equal(
            protected[0], sensitivity(task.vector, gradient_at(context, task.vector)).astype(np.float64)
        )
