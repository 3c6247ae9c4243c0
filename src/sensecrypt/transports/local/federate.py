"""`federate`: federated training of a user's own model by a function call."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from sensecrypt import checks
from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.client.checking import make_recipe
from sensecrypt.client.problem import own_problem
from sensecrypt.client.training import Evaluate, Fit, Loss, MakeOptimizer, MakeScheduler, Metric, Recipe
from sensecrypt.config import RunConfig, make_config, to_settings
from sensecrypt.errors import InvalidInput
from sensecrypt.records import Record, clients_of, servers_of
from sensecrypt.runs.folder import CHANGEABLE, RunFolder
from sensecrypt.transports.local.observer import LocalObserver
from sensecrypt.transports.local.progress import Progress
from sensecrypt.transports.local.result import Result, mean_figures
from sensecrypt.transports.local.run import one_thread, run_local
from sensecrypt.types import Device


@dataclass(frozen=True, eq=False)
class RoundDone:
    """The argument of `on_round`.

    Attributes:
        number: the round's number, from 0.
        metrics: figures on the test data, averaged over clusters.
        encrypted_share: the mean share of the model that clients encrypted.
        left_out: the reasons why clients did not count, by client.
        model: returns a cluster's model after this round.
    """

    number: int
    metrics: Mapping[str, float]
    encrypted_share: float
    left_out: Mapping[int, str]
    model: Callable[[int], nn.Module]


OnRound = Callable[[RoundDone], Any]
_INTERRUPTED = 130  # the exit code after Ctrl-C
_LOOP = ("learning_rate", "momentum", "local_epochs", "batch_size")  # settings of the training loop that `fit` replaces


class Stopped(SystemExit, KeyboardInterrupt):
    """Ctrl-C, without a traceback; finished rounds are in the run's folder."""


def federate(
    model: nn.Module,
    clients: Sequence[Any],
    *,
    test: Any = None,
    load: Callable[[Any], Any] | None = None,
    client_tests: Sequence[Any] | None = None,
    loss: Loss | None = None,
    fit: Fit | None = None,
    optimizer: MakeOptimizer | None = None,
    scheduler: MakeScheduler | None = None,
    proximal_mu: float = 0.0,
    metrics: Mapping[str, Metric] | None = None,
    evaluate: Evaluate | None = None,
    rounds: int | None = None,
    server: str | ServerRule | None = None,
    sample: float | None = None,
    weights: Sequence[float] | None = None,
    devices: Sequence[Device] | None = None,
    device: str = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    progress: bool = True,
    on_round: OnRound | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Result:
    """Train `model` on the clients' data with per-device selective encryption.

    Args:
        model: the initial model; parameters that require a gradient and the statistics of its state are averaged.
        clients: each client's data: tensors, a Dataset, a DataLoader, a list of batches; or functions without
            arguments that return them, called when a client takes part; or, with `load`, any identifiers of clients.
        test: test data, on which models are measured after every round.
        load: returns the data of an element of `clients`.
        client_tests: each client's test data, on which its cluster's model is measured, or functions that return them.
        loss: returns the loss of a model's output and the batch; PyTorch's own losses get the batch's last part instead
            of the batch. None: the output's own `loss`, as in transformers, else cross-entropy.
        fit: a client's whole training in a round, in place: fit(model, data, round), with data as passed.
        optimizer: returns an optimiser for parameters; None: stochastic gradient descent as in `settings`.
        scheduler: returns a learning-rate schedule for an optimiser, with one step per round.
        proximal_mu: μ of FedProx.
        metrics: functions of a model's output and a batch, by name.
        evaluate: returns all figures of a model: evaluate(model, test).
        rounds: number of rounds.
        server: the rule of the server update: `fedavg`, `fedavgm`, `fedadam`, `fedyogi`, or a `ServerRule` with rates.
        sample: clients per round: their number, or their share if below 1.
        weights: the clients' weights in every mean; None: their numbers of samples.
        devices: one device per client; they determine how much each client encrypts.
        device: the device on which models train: `auto`, `cpu`, `cuda` or `mps`.
        out: the run's folder; None: nothing is saved.
        resume: continue the run in `out` if there is one.
        progress: show a line on standard error, in terminals and notebooks.
        on_round: called after each round; the run stops if it returns True.
        settings: all other settings, by the names of `sensecrypt.config.RunConfig`.

    Returns:
        The trained model of each cluster, the cluster of each client, figures and records.
    """
    recipe = make_recipe(
        loss=loss,
        fit=fit,
        optimizer=optimizer,
        scheduler=scheduler,
        proximal_mu=proximal_mu,
        metrics=metrics,
        evaluate=evaluate,
        device=device,
    )
    with one_thread():
        problem = own_problem(
            model,
            clients,
            test,
            load=load,
            recipe=recipe,
            client_tests=client_tests,
            weights=weights,
        )
    arguments = {
        "rounds": rounds,
        "sample": sample,
        "clients": len(problem.clients),
        **_server(server),
        **_devices(devices, len(problem.clients)),
    }
    config = _configured(model, settings or {}, arguments, recipe)
    keeps = out is not None
    with ExitStack() as stack:
        if out is None:
            if resume:
                raise InvalidInput("resume", "continues the run of a folder, but out is not given", "pass out=")
            out = stack.enter_context(tempfile.TemporaryDirectory())
        folder = RunFolder(Path(out))
        resumes = resume and folder.exists()
        if resumes:
            with folder.held():
                config = _changed(folder, config)
        line = Progress(config.training.rounds, shown=progress)
        stack.callback(line.end)
        try:
            return run_local(
                config,
                folder,
                problem=problem,
                resume=resumes,
                on_records=lambda *done: _after(line, on_round, *done),
                on_reply=line.reply,
            )
        except KeyboardInterrupt:
            raise _stopped(folder, kept=keeps and folder.exists()) from None


def _configured(model: nn.Module, settings: Mapping[str, Any], given: Mapping[str, Any], recipe: Recipe) -> RunConfig:
    """Return the run's configuration; raise for a setting that is also an argument."""
    arguments = {name: value for name, value in given.items() if value is not None}
    named = {"dataset": "own", "model": type(model).__name__, "partition": "own"}
    for name in {**arguments, **named}.keys() & settings.keys():
        raise InvalidInput("settings", f"has {name}, which is an argument of federate", "leave it out of settings")
    replaced = {"fit": (recipe.fit, _LOOP), "optimizer": (recipe.optimizer, ("learning_rate", "momentum"))}
    for argument, (function, names) in replaced.items():
        for name in names if function is not None else ():
            if name in settings:
                raise InvalidInput("settings", f"has {name}, which {argument} replaces", "leave one of them out")
    return make_config({**settings, **named, **arguments})


def _server(server: str | ServerRule | None) -> dict[str, Any]:
    """Return the settings of a server rule."""
    if server is None:
        return {}
    if isinstance(server, ServerRule):
        rates = {"server_learning_rate": server.learning_rate, "server_momentum": server.momentum}
        return {"server": server.rule, **rates, "server_beta2": server.beta2, "server_tau": server.tau}
    return {"server": checks.choice("server", server, ("fedavg", "fedavgm", "fedadam", "fedyogi"))}


def _devices(devices: Sequence[Device] | None, clients: int) -> dict[str, Any]:
    """Return the settings of these devices."""
    if devices is None:
        return {}
    for index, each in enumerate(devices):
        if not isinstance(each, Device):
            raise InvalidInput(f"devices[{index}]", f"is a {type(each).__name__}", "pass a sensecrypt.Device")
    if len(devices) != clients:
        problem = f"has {len(devices)} elements, but there are {clients} clients"
        raise InvalidInput("devices", problem, "pass one per client")
    return {"cpus": [each.speed for each in devices], "bandwidths": [each.bandwidth for each in devices]}


def _changed(folder: RunFolder, config: RunConfig) -> RunConfig:
    """Return the configuration of the run in the folder, changed to that of this call; raise if that is not allowed."""
    known, changes = to_settings(folder.read_config()), {}
    for name, value in to_settings(config).items():
        if (name, value) != ("profile", "auto") and name != "statistics" and value != known.get(name):
            if name not in CHANGEABLE:
                problem = f"is {value}, but the run in {folder.path} has {known.get(name)}"
                raise InvalidInput(name, problem, "pass the run's value, or choose another folder")
            changes[name] = value
    return folder.change_config(changes)


def _after(
    line: Progress, on_round: OnRound | None, number: int, records: list[Record], observer: LocalObserver
) -> bool:
    """Show the round, call `on_round`, and return whether the run stops."""
    metrics = mean_figures([record.metrics or {} for record in servers_of(records)])
    line.round(number, metrics)
    if on_round is None:
        return False
    clients = clients_of(records)
    shares = [each.encrypted_share for each in clients if each.encrypted_share is not None]
    left_out = {each.client: why for each in clients for why in [each.left_out or each.failure] if why}
    share = float(np.mean(shares)) if shares else 0.0
    verdict = on_round(RoundDone(number, metrics, share, left_out, observer.built))
    return isinstance(verdict, (bool, np.bool_)) and bool(verdict)


def _stopped(folder: RunFolder, *, kept: bool) -> BaseException:
    """Return what Ctrl-C raises: in a script, two lines without a traceback; in a session, an interrupt."""
    hint = f"continue with out={str(folder.path)!r}, resume=True" if kept else "nothing was saved"
    if hasattr(sys, "ps1") or "ipykernel" in sys.modules:
        return KeyboardInterrupt(hint)
    sys.stderr.write(f"\nstopped by Ctrl-C\n{hint}\n")
    sys.stderr.flush()
    return Stopped(_INTERRUPTED)
