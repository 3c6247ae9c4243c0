"""The ServerApp: enrol, cluster, order, rounds, finish. What it learns is what the aggregator may know, and no more."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from sensecrypt.engines.budgets import Budgets
from sensecrypt.engines.clock import SETUP
from sensecrypt.engines.flower.checkpoint import FleetState, load_fleet_state, sketch_seed
from sensecrypt.engines.flower.exchange import ask
from sensecrypt.engines.flower.fleetround import LOOK_SECONDS, Aggregator, end_round, play_round
from sensecrypt.engines.flower.fleetsetup import cluster_fleet, dismiss_found, enrol_all, first_orders, place_newcomers
from sensecrypt.engines.flower.messages import Assignment, facts_from_bytes
from sensecrypt.engines.flower.outcome import write_outcome
from sensecrypt.engines.flower.party import Party, read_party
from sensecrypt.engines.flower.roster import Roster
from sensecrypt.engines.flower.settings import Settings, read_settings
from sensecrypt.engines.flower.wire import unpack
from sensecrypt.engines.outcome import Record
from sensecrypt.engines.runfolder import RunFolder
from sensecrypt.errors import InvalidInput, Rejected, SenseCryptError
from sensecrypt.files import make_folder
from sensecrypt.policies import get_policy
from sensecrypt.protocol.sumrules import SumRules
from sensecrypt.services.dkms.client import DkmsClient

PARTY_VARIABLE = "SENSECRYPT_AGGREGATOR"  # names the party file, in the environment of SuperLink
_LOG = logging.getLogger("sensecrypt.fleet")
_DIGEST = re.compile(rb"[0-9a-f]{64}")


def make_app() -> ServerApp:
    """See `sensecrypt.engines.flower.server_app`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        _LOG.setLevel(logging.INFO)
        run_fleet(grid, read_settings(context.run_config), _own_party())

    return app


def run_fleet(grid: Grid, settings: Settings, party: Party) -> None:
    """Play a run, or continue the one of that name; what came of it, also a failure, is in the run's folder."""
    folder = RunFolder(party.state / settings.run)
    make_folder(folder.path)
    with _held(folder):
        (folder.path / "outcome.json").unlink(missing_ok=True)
        try:
            with party.connect() as dkms:
                _play(grid, settings, party, dkms, folder)
        except SenseCryptError as error:
            folder.write("outcome.json", json.dumps({"error": str(error)}).encode())
            raise


@contextlib.contextmanager
def _held(folder: RunFolder) -> Iterator[None]:
    """Hold the run: two ServerApps on one would get in each other's way."""
    with (folder.path / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = "is played by another ServerApp"
            raise InvalidInput(str(folder.path), problem, "stop that one first: flwr stop") from None
        yield


def _play(grid: Grid, settings: Settings, party: Party, dkms: DkmsClient, folder: RunFolder) -> None:
    start = time.perf_counter()
    told = dkms.run(settings.run)
    names, registered = told["names"], SumRules(**{each.name: told[each.name] for each in fields(SumRules)})
    if sorted(map(int, names)) != list(range(settings.config.clients)):
        problem = f"is {settings.config.clients}, the key service knows {len(names)} members of run {settings.run}"
        raise InvalidInput("clients", problem, "register the run with as many, numbered from 0")
    members = {name: int(number) for number, name in names.items()}
    roster = Roster(grid, settings.run, members, party.authority, sketch_seed(folder))
    state = load_fleet_state(folder)
    enrol_all(roster, settings, least=settings.config.min_contributors)
    if state is None:
        state, config = cluster_fleet(roster, settings, dkms.samples(settings.run))
        if not folder.exists():
            folder.create(config)
        state.save(folder)
    config = replace(folder.read_config(), rounds=settings.config.rounds)
    aggregator = Aggregator(grid, settings, config, dkms, dkms.public_key(settings.run), folder, roster, registered)
    if state.next_round == SETUP:
        records = first_orders(aggregator, state)
        dismiss_found(aggregator, state)
        end_round(aggregator, state, records)
    budgets = Budgets(config, state.labels, state.size, state.measured)
    budgets.learn(folder.records())
    dismissed = False
    for number in range(state.next_round, config.rounds):
        roster.look(seconds=min(LOOK_SECONDS, settings.deadline))
        if place_newcomers(roster, state, lambda: dkms.samples(settings.run)) or dismissed:
            budgets = Budgets(config, state.labels, state.size, state.measured)
            budgets.learn(folder.records())
        allowed, refresh = budgets.of_round(number), _is_refresh(aggregator, number)
        records = play_round(aggregator, state, number, allowed, refresh=refresh)
        state.next_round = number + 1
        dismissed = dismiss_found(aggregator, state)
        end_round(aggregator, state, records)
        budgets.learn(records)
        _LOG.info("round %d of %d is done: %s", number + 1, config.rounds, _arrived(records))
    records, digests = _finish(aggregator, state)
    folder.append(records)
    write_outcome(folder, state, digests, time.perf_counter() - start)


def _is_refresh(aggregator: Aggregator, number: int) -> bool:
    config = aggregator.config
    due = (number + 1) % config.order_refresh == 0 and number + 1 < config.rounds
    return due and config.layout == "prefix" and get_policy(config.policy).ranks_by == "sensitivity"


def _finish(aggregator: Aggregator, state: FleetState) -> tuple[list[Record], list[str]]:
    """Everybody who is there fetches its final model; accuracies, and each cluster's hash."""
    clients = {node: client for client, node in aggregator.roster.nodes().items() if state.labels[client] >= 0}
    requests = {}
    for node, client in clients.items():
        cluster = int(state.labels[client])
        assignment = Assignment(cluster, state.next_round, 0, 0.0, state.start(cluster), refresh=False)
        requests[node] = {"assignment": assignment.to_bytes()}
    records: list[Record] = []
    told: list[list[str]] = [[] for _ in range(state.clusters)]
    for reply in ask(aggregator.grid, "query.finish", requests, seconds=aggregator.settings.deadline):
        client = clients[reply.node]
        cluster = int(state.labels[client])
        try:
            parts = unpack(reply.content, needed={"facts", "model_sha256"})
            accuracy = facts_from_bytes(parts["facts"], "finish").get("accuracy")
            if not _DIGEST.fullmatch(parts["model_sha256"]):
                raise Rejected("a hash that is none")
        except Rejected as error:
            _LOG.warning("client %d did not finish: %s", client, error)
            continue
        told[cluster].append(parts["model_sha256"].decode())
        if accuracy is not None:
            records.append({"round": int(state.latest[cluster][0]), "evaluated": client, "accuracy": accuracy})
    for cluster, digests in enumerate(told):
        if len(set(digests)) > 1:
            _LOG.warning("clients of cluster %d tell different models; do they run the same version?", cluster)
    return records, [Counter(digests).most_common(1)[0][0] if digests else "" for digests in told]


def _arrived(records: list[Record]) -> str:
    clients = [record for record in records if "client" in record]
    played = [record["encrypted_share"] for record in clients if "left_out" not in record]
    share = f", {np.mean(played):.0%} encrypted" if played else ""
    return f"{len(played)} of {len(clients)} clients{share}"


def _own_party() -> Party:
    place = os.environ.get(PARTY_VARIABLE)
    if not place:
        fix = "set it to the aggregator's party file where SuperLink is started; see docs/deployment.md"
        raise InvalidInput(PARTY_VARIABLE, "is not in the environment", fix)
    return read_party(Path(place))
