"""All parties of a run on one machine: clients in worker processes, aggregator and key server in this one.

The loop is the protocol of the paper's Algorithms 1 and 2: describe the data, cluster, give each cluster an order of
the parameters, then rounds of train → choose → encrypt → add → decrypt → distribute. Models depend on the configuration
alone: not on keys, masks, workers or who arrives first.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from sensecrypt.config import RunConfig
from sensecrypt.engines import jacobian
from sensecrypt.engines.budgets import Budgets, measured_bandwidths
from sensecrypt.engines.clock import Prices
from sensecrypt.engines.clusterround import play_cluster
from sensecrypt.engines.limits import warn_of_weights
from sensecrypt.engines.outcome import Record
from sensecrypt.engines.parties import Intercept, Parties, gather
from sensecrypt.engines.problem import Problem, configured_problem
from sensecrypt.engines.result import Result
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.engines.setup import set_up
from sensecrypt.engines.state import State, load_state
from sensecrypt.engines.training import accuracy_by_class, class_shares, warm_up
from sensecrypt.errors import InvalidInput, Rejected, SenseCryptError
from sensecrypt.models import get_vector, layout, set_vector
from sensecrypt.policies import get_policy

MAX_ATTEMPTS = 2

OnRound = Callable[[int, float, float], None]


def run_local(
    config: RunConfig,
    folder: RunFolder,
    *,
    problem: Problem | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    intercept: Intercept | None = None,
    memo: Path | None = None,
    prices: Prices | None = None,
) -> Result:
    """Play a whole run.

    Args:
        config: what to do.
        folder: where records, checkpoints and models go.
        problem: what to learn; None: what the configuration names.
        resume: continue the run that is in `folder`.
        on_round: told after each round: its number, the mean accuracy, the mean encrypted share.
        intercept: stands between clients and aggregator, for tests: returns the bytes that arrive, or None.
        memo: a folder where training results are kept, shared by runs of the same problem.
        prices: what a ciphertext costs in a calibrated run; None: as measured at its start.
    """
    if not resume:
        folder.refuse_existing()
    ranks_by = get_policy(config.policy).ranks_by
    if memo is not None and config.dataset == "own":
        raise InvalidInput("memo", "tells problems apart by their data set's name", "use it with named data sets")
    what = problem or configured_problem(config)
    torch.set_num_threads(1)  # before any computation: workers are forked from this process
    warm_up()
    if ranks_by == "jacobian":
        jacobian.warm_up()
    known = (folder.load_prices() if resume else None) or prices  # one run, one calibration
    parties = gather(config, what, folder, intercept=intercept, memo=memo, prices=known)
    if not resume:
        folder.create(config)  # only now: what could not even start leaves nothing behind
        folder.save_prices(parties.keys.prices)
    start = time.perf_counter()
    with parties.workers:
        state, accuracy = _play(parties, what, resume, on_round)
    folder.save_models(state.vectors, layout(what.build()))
    seconds = time.perf_counter() - start
    labels, log = state.labels.tolist(), folder.records()
    hashes = [hashlib.sha256(vector.tobytes()).hexdigest() for vector in state.vectors]
    return Result(config, labels, accuracy, log, seconds, state.why, hashes, state.vectors, what.build)


def _play(parties: Parties, problem: Problem, resume: bool, on_round: OnRound | None) -> tuple[State, list[float]]:
    config, folder, server = parties.config, parties.folder, parties.keys.server
    state = load_state(folder, server) if resume else None
    if state is None:
        state, records = set_up(parties, get_vector(problem.build()))
        folder.append(records)
        state.save(folder, server)
    rounds = [parties.describe(state.labels, cluster, 0, "model") for cluster in range(len(state.vectors))]
    warn_of_weights(config, [each.weights for each in rounds])
    before = folder.records()
    budgets = Budgets(config, state.labels, parties.size, measured_bandwidths(before))
    budgets.learn(before)
    accuracy = _accuracies(problem, state)
    for number in range(state.next_round, config.rounds):
        records = _round(parties, state, number, budgets)
        state.next_round = number + 1
        accuracy = _accuracies(problem, state)
        clients = [record for record in records if "client" in record]
        for record in clients:
            record["accuracy"] = accuracy[record["client"]]
        folder.append(records)
        state.save(folder, server)
        budgets.learn(records)
        shares = [record["encrypted_share"] for record in clients if "encrypted_share" in record]
        if on_round is not None:
            on_round(number, float(np.mean(accuracy)), float(np.mean(shares)) if shares else 0.0)
    return state, accuracy


def _round(parties: Parties, state: State, number: int, budgets: Budgets) -> list[Record]:
    """Every cluster's round, each tried again once."""
    config = parties.config
    due = (number + 1) % config.order_refresh == 0 and number + 1 < config.rounds
    due = due and parties.ordered and parties.policy.ranks_by == "sensitivity"
    allowed = budgets.of_round(number)
    records: list[Record] = []
    for cluster in range(len(state.vectors)):
        for attempt in range(MAX_ATTEMPTS):
            try:
                records += play_cluster(
                    parties, state, cluster, number, attempt=attempt, budgets=allowed, refresh_due=due
                )
                break
            except Rejected as error:
                reason = str(error)
        else:
            raise SenseCryptError(
                f"round {number}, cluster {cluster} failed {MAX_ATTEMPTS} times: {reason}; fix it and --resume"
            )
    return records


def _accuracies(problem: Problem, state: State) -> list[float]:
    """Each client's accuracy: its cluster's model on test data distributed as its own."""
    by_class = []
    for vector in state.vectors:
        model = problem.build()
        set_vector(model, vector)
        by_class.append(np.nan_to_num(accuracy_by_class(model, *problem.test, problem.classes)))
    shares = [class_shares(labels, problem.classes) for _, labels in problem.clients]
    return [float(share @ by_class[label]) for share, label in zip(shares, state.labels, strict=True)]
