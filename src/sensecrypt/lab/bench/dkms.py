"""`sensecrypt bench dkms`: the key service against bare decryption, and its answers to many clients at once."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from sensecrypt.crypto.keyfile import read_secret
from sensecrypt.errors import ServiceError
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.pki import create_authority, issue
from sensecrypt.lab.bench.measure import Times, peak_mb
from sensecrypt.lab.bench.table import Report, Shown, Table
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.messages import Aggregate, Tag, Upload
from sensecrypt.protocol.protection import model_format
from sensecrypt.protocol.round import Round, address_of
from sensecrypt.protocol.tags import TagOffset, mac_tag
from sensecrypt.types import Mask

PROFILE, RUN = "paillier-2048", "bench"
_QUORUM = 0.001  # three clients contribute, and hundreds fetch the result


@dataclass(frozen=True)
class _Running:
    """A service that runs for the measurement only."""

    url: str
    process: int
    folder: Folder
    pki: Path
    passphrase: str

    def identity(self, role: str, name: str) -> DkmsClient:
        if not (self.pki / f"{name}.crt").exists():
            issue(self.pki, role=role, name=name, days=2)
        files = self.pki / f"{name}.crt", self.pki / f"{name}.key"
        return DkmsClient(self.url, certificate=files[0], key=files[1], authority=self.pki / "ca.crt")


def run(
    *, parameters: int, clients: int, workers: int, repeats: int, seed: int, on_step: Callable[[str], None]
) -> Report:
    """Decrypt by both alternately, on the same processors; then serve all clients at once. Medians in seconds.

    The service's seconds are from the aggregator's request to the acknowledgement, for a model that is encrypted whole.
    Then all clients fetch the model over new connections, and all fetch a seed and send a tag: `p50` and `p99` are
    percentiles of their waiting times.
    """
    on_step("starting a service")
    with tempfile.TemporaryDirectory() as folder, _service(Path(folder), workers) as running:
        names = {client: f"client-{client}" for client in range(clients)}
        with running.identity("admin", "admin") as admin:
            admin.register_run(RUN, size=parameters, profile=PROFILE, members=names, min_contributors=3, quorum=_QUORUM)
        for name in names.values():
            with running.identity("client", name) as identity:
                identity.report_samples(RUN, 1)
        rounds = _Rounds(running, parameters, clients, seed)
        secret = read_secret(running.folder.key(RUN), running.passphrase)
        times = Times()
        for repeat in range(repeats + 1):  # the first does not count: the service reads its key
            on_step(f"decryption {repeat} of {repeats}")
            taken = times if repeat else Times()
            round_ = rounds.start(repeat)
            message = rounds.aggregate.to_bytes(round_)
            with running.identity("aggregator", "aggregator") as aggregator:
                aggregator.about()  # opens the connection
                taken.of("service", partial(aggregator.release, message, round_))
            taken.of("bare", partial(secret.decrypt, rounds.aggregate.ciphertexts, parameters, workers=workers))
        on_step(f"{clients} clients at once")
        waited, sizes = _at_once(running, clients, lambda _, identity: _model_bytes(identity, round_))
        tagging = rounds.register(repeats + 1)
        tagged, _ = _at_once(running, clients, lambda number, identity: _tag(identity, tagging, number))
        service, bare = (times.medians[name] for name in ("service", "bare"))
        fetched, tags = (np.percentile(each, [50, 99]).tolist() for each in (waited, tagged))
        return {
            "parameters": parameters,
            "ciphertexts": rounds.aggregate.mask.blocks,
            "workers": workers,
            "service_seconds": service,
            "bare_seconds": bare,
            "clients": clients,
            "fetch_p50_seconds": fetched[0],
            "fetch_p99_seconds": fetched[1],
            "fetch_bytes": sizes[0],
            "tag_p50_seconds": tags[0],
            "tag_p99_seconds": tags[1],
            "memory_megabytes": peak_mb(running.process),
            "ratio": service / bare,
            "repeats": repeats,
        }


def shown(report: Report) -> Iterator[Shown]:
    """The table, and the clients' waiting times."""
    yield Table(
        "Decrypting a sum of {parameters:,} parameters in {ciphertexts:,} ciphertexts, {workers} process(es) (medians "
        "of {repeats}, seconds)".format(**report),
        ("method", "seconds", "ratio"),
        (
            ("bare calls", f"{report['bare_seconds']:.3f}", ""),
            ("through the service, verified", f"{report['service_seconds']:.3f}", f"{report['ratio']:.2f}"),
        ),
    )
    yield (
        "{clients} clients fetch {megabytes:.2f} MB each at once, over new connections: half within "
        "{fetch_p50_seconds:.2f} s, 99 % within {fetch_p99_seconds:.2f} s."
    ).format(**report, megabytes=report["fetch_bytes"] / 1e6)
    yield (
        "They fetch a seed and send a tag: half within {tag_p50_seconds:.2f} s, 99 % within {tag_p99_seconds:.2f} s. "
        "The service's process took {memory_megabytes:,.0f} MB at most."
    ).format(**report)


class _Rounds:
    """Rounds with the same sum: its ciphertexts are computed once, tags for every round."""

    def __init__(self, running: _Running, parameters: int, clients: int, seed: int) -> None:
        self._running, self._size = running, parameters
        self._weights = dict.fromkeys(range(clients), 1 / clients)
        rng, template = np.random.default_rng(seed), self._round(0)
        form = model_format(template)
        self._values = {client: form.encode(rng.normal(0, 0.1, parameters), 1 / clients) for client in (0, 1, 2)}
        with running.identity("aggregator", "aggregator") as aggregator:
            public = aggregator.public_key(RUN)
        total, mask = RoundSum(template, public), Mask.prefix(template.blocks, size=parameters, block=template.block)
        for client, values in self._values.items():
            upload = Upload(client, mask, public.encrypt(values), values[:0], TagOffset())
            total.add(upload.to_bytes(template), sender=client)
        self.aggregate: Aggregate = total.close()

    def start(self, number: int) -> Round:
        """A registered round whose tags have been sent."""
        round_ = self.register(number)
        for client, values in self._values.items():
            with self._running.identity("client", f"client-{client}") as identity:
                value = mac_tag(values, identity.task(address_of(round_)).seed)
                signed = Tag(client, value, value)
                identity.send_tag(signed.to_bytes(round_), round_)
        return round_

    def register(self, number: int) -> Round:
        """A registered round."""
        round_ = self._round(number)
        with self._running.identity("aggregator", "aggregator") as aggregator:
            aggregator.register_round(round_)
        return round_

    def _round(self, number: int) -> Round:
        return Round(RUN, number, 0, "model", self._size, get_profile(PROFILE), self._weights)


def _at_once(running: _Running, clients: int, ask: Callable[[int, DkmsClient], int]) -> tuple[list[float], list[int]]:
    """Seconds that each client waits for its answer over a new connection, after a common start; and the answers."""
    waited, gate = [0.0] * clients, threading.Barrier(clients)
    answers: list[int] = []

    def fetch(number: int, identity: DkmsClient) -> None:
        with identity:
            gate.wait()
            start = time.perf_counter()
            answers.append(ask(number, identity))
            waited[number] = time.perf_counter() - start

    identities = [running.identity("client", f"client-{number}") for number in range(clients)]
    threads = [threading.Thread(target=fetch, args=each) for each in enumerate(identities)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(answers) != clients:
        raise ServiceError("bench", f"{clients - len(answers)} clients were not answered", "try fewer clients")
    return waited, answers


def _model_bytes(identity: DkmsClient, round_: Round) -> int:
    return int(identity.moved(address_of(round_), round_.size).nbytes)


def _tag(identity: DkmsClient, round_: Round, client: int) -> int:
    identity.task(address_of(round_))
    identity.send_tag(Tag(client, client, client).to_bytes(round_), round_)
    return 1


@contextmanager
def _service(folder: Path, workers: int) -> Iterator[_Running]:
    pki, state, passphrase = folder / "pki", Folder(folder / "service"), secrets.token_urlsafe(16)
    create_authority(pki, days=2)
    certificate, key = issue(pki, role="server", name="dkms", hosts=("127.0.0.1",), days=2)
    state.create(passphrase)
    state.policy.write_text(f"quorum = {_QUORUM}\n")
    options = {"--folder": state.path, "--ca": pki / "ca.crt", "--certificate": certificate, "--key": key, "--port": 0}
    flat = [str(part) for option in {**options, "--workers": workers}.items() for part in option]
    process = subprocess.Popen(  # noqa: S603  (our own command)
        [sys.executable, "-m", "sensecrypt", "dkms", "serve", *flat],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SENSECRYPT_PASSPHRASE": passphrase},
    )
    try:
        line = process.stdout.readline() if process.stdout is not None else ""
        if not line.startswith("Listening on "):
            raise ServiceError("bench", "the service did not start", "see the line above")
        yield _Running(line.split()[-1], process.pid, state, pki, passphrase)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
