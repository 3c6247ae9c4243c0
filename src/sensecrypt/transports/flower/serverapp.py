"""The ServerApp: the coordinator over Flower, and the outcome of the run for its submitter."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections import Counter
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from sensecrypt.client.identity import Identity, read_identity
from sensecrypt.coordinator import run as coordinator
from sensecrypt.coordinator.checkpoint import RunState
from sensecrypt.coordinator.coordination import Coordination
from sensecrypt.coordinator.ports import Patience
from sensecrypt.errors import InvalidInput, Rejected, SenseCryptError
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.protocol.requests import Assignment, facts_from_bytes, require_parts
from sensecrypt.records import Evaluation, Record
from sensecrypt.runs.folder import RunFolder
from sensecrypt.runs.outcome import write_outcome
from sensecrypt.transports.flower.settings import Settings, read_settings
from sensecrypt.transports.flower.transport import FlowerTransport

IDENTITY_VARIABLE = "SENSECRYPT_AGGREGATOR"  # names the identity file, in the environment of SuperLink
_LOG = logging.getLogger("sensecrypt.fleet")
_SPOKEN = ("sensecrypt.fleet", "sensecrypt.coordinator")  # the loggers that report progress
_DIGEST = re.compile(rb"[0-9a-f]{64}")


def make_app() -> ServerApp:
    """See `sensecrypt.transports.flower.server_app`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        for name in _SPOKEN:
            logging.getLogger(name).setLevel(logging.INFO)
        run_fleet(grid, read_settings(context.run_config), _own_identity())

    return app


def run_fleet(grid: Grid, settings: Settings, identity: Identity) -> None:
    """Run, or continue the run of that name; write the outcome or the error to the run's folder."""
    folder = RunFolder(identity.state / settings.run)
    with folder.held():
        (folder.path / "outcome.json").unlink(missing_ok=True)
        try:
            with identity.connect() as dkms:
                _run(grid, settings, identity, dkms, folder)
        except SenseCryptError as error:
            folder.write("outcome.json", json.dumps({"error": str(error)}).encode())
            raise


def _run(grid: Grid, settings: Settings, identity: Identity, dkms: DkmsClient, folder: RunFolder) -> None:
    start = time.perf_counter()
    members = {name: int(number) for number, name in dkms.run(settings.run)["names"].items()}
    transport = FlowerTransport(grid, settings.run, members, identity.authority)
    patience = Patience(settings.enrol_seconds, settings.deadline)
    run, state = coordinator.run(transport, dkms, folder, settings.config, name=settings.run, patience=patience)
    records, digests = _finish(run, state)
    folder.append(records)
    write_outcome(folder, state.labels.tolist(), state.why, digests, time.perf_counter() - start)


def _finish(run: Coordination, state: RunState) -> tuple[list[Record], list[str]]:
    """Have all present clients fetch their final models; their accuracies, and the hash of each cluster's model."""
    run.registry.look(seconds=run.patience.proof)  # clients that are gone are not asked
    requests = {}
    for client in sorted(run.registry.present):
        cluster = int(state.labels[client])
        if cluster >= 0:
            assignment = Assignment(cluster, state.next_round, 0, 0.0, state.start(cluster), refresh=False)
            requests[client] = {"assignment": assignment.to_bytes()}
    records: list[Record] = []
    hashes: list[list[str]] = [[] for _ in range(state.clusters)]
    for reply in run.transport.ask("finish", requests, seconds=run.patience.deadline):
        client = reply.client
        cluster = int(state.labels[client])
        try:
            parts = require_parts(reply.content, needed={"facts", "model_sha256"})
            accuracy = facts_from_bytes(parts["facts"], "finish").accuracy
            if not _DIGEST.fullmatch(parts["model_sha256"]):
                raise Rejected("an invalid hash of a model")
        except Rejected as error:
            _LOG.warning("client %d did not finish: %s", client, error)
            continue
        hashes[cluster].append(parts["model_sha256"].decode())
        if accuracy is not None:
            records.append(Evaluation(round=int(state.latest[cluster][0]), evaluated=client, accuracy=accuracy))
    for cluster, digests in enumerate(hashes):
        if len(set(digests)) > 1:
            _LOG.warning("clients of cluster %d report different models; do they run the same version?", cluster)
    return records, [Counter(digests).most_common(1)[0][0] if digests else "" for digests in hashes]


def _own_identity() -> Identity:
    place = os.environ.get(IDENTITY_VARIABLE)
    if not place:
        fix = "set it to the aggregator's identity file where SuperLink is started; see docs/deployment.md"
        raise InvalidInput(IDENTITY_VARIABLE, "is not in the environment", fix)
    return read_identity(Path(place))
