"""The client of the key service: for aggregators, clients and admins, each with its own certificate.

Every request is idempotent: registrations, tags and sums are stored under their address, and the service repeats its
answer. So every request is sent again after a lost connection.
"""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt._version import __version__
from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.crypto.publicfile import public_key
from sensecrypt.crypto.scheme import StorablePublicKey
from sensecrypt.errors import MissingExtra, Unreachable
from sensecrypt.keyservice.http.addresses import (
    MESSAGE_TYPE,
    PROTOCOL,
    PROTOCOL_HEADER,
    check_url,
    round_address,
    run_address,
)
from sensecrypt.keyservice.http.certificates import check_pair
from sensecrypt.keyservice.http.problems import read_document
from sensecrypt.protocol import answers
from sensecrypt.protocol.answers import Acknowledgement, RoundTask
from sensecrypt.protocol.round import Round, RoundAddress, describe_round
from sensecrypt.protocol.updates import FEDAVG, ReleasedSum

try:
    import httpx
except ImportError:  # pragma: no cover
    raise MissingExtra("the key service's client", "dkms") from None

CONNECT_SECONDS, READ_SECONDS, RELEASE_SECONDS = 10.0, 60.0, 1800.0
_TRY_AGAIN = (429, 502, 503, 504)
_ONCE = ("too-many-failures",)


class DkmsClient:
    """A connection to one key service, under one certificate. Use it as a context manager, in one thread at a time."""

    def __init__(
        self, url: str, *, certificate: Path, key: Path, authority: Path, tries: int = 6, pause: float = 0.2
    ) -> None:
        """Check address and certificates; the connection is opened by the first request.

        Args:
            url: such as https://dkms.example:8443.
            certificate: of the sender.
            key: its key.
            authority: issued the service's certificate.
            tries: how often a request is sent until it is answered.
            pause: seconds before the second try; doubled before each further one.
        """
        self._url = check_url(url)
        check_pair(certificate, key, authority)
        context = ssl.create_default_context(cafile=str(authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(certificate, key, password="")
        self._tries, self._pause = checks.whole("tries", tries, low=1), pause
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        headers = {PROTOCOL_HEADER: PROTOCOL, "User-Agent": f"sensecrypt/{__version__}"}
        self._http = httpx.Client(base_url=url, verify=context, timeout=timeout, headers=headers, trust_env=False)

    def __enter__(self) -> DkmsClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def about(self) -> dict[str, Any]:
        """The service's version, and the identity in this certificate."""
        return self._json("GET", "/v1/about")

    def register_run(
        self,
        run: str,
        *,
        size: int,
        profile: str,
        members: Mapping[int, str],
        min_contributors: int,
        aggregators: Sequence[str] = ("aggregator",),
        quorum: float = 0.5,
        first: Sequence[tuple[int, int]] = (),
        rounds: int | None = None,
        server: ServerRule = FEDAVG,
        release_to_aggregator: bool = False,
    ) -> dict[str, Any]:
        """Register a run; returns its public facts. `runs.RunRequest` explains the arguments.

        For admins; an aggregator registers a run that releases to it.
        """
        body = {
            "size": size,
            "profile": profile,
            "members": {str(number): name for number, name in members.items()},
            "min_contributors": min_contributors,
            "aggregators": list(aggregators),
            "quorum": quorum,
            "first": [list(each) for each in first],
            "rounds": rounds,
            "server": asdict(server),
            "release_to_aggregator": release_to_aggregator,
        }
        return self._json("PUT", run_address(run), json=body)

    def end_run(self, run: str) -> None:
        """End a run and destroy its secret key, as admin; repeating this changes nothing."""
        self._json("DELETE", run_address(run))

    def run(self, run: str) -> dict[str, Any]:
        """The public facts of a run, and this client's number in it."""
        return self._json("GET", run_address(run))

    def public_key(self, run: str) -> StorablePublicKey:
        """The run's public key, checked."""
        address = f"{run_address(run)}/key"
        return public_key(f"{self._url}{address}", self._json("GET", address))

    def join(self, run: str, client: int) -> None:
        """Join a run whose sums go to its aggregator, as client."""
        self._json("PUT", f"{run_address(run)}/members/{client}")

    def report_samples(self, run: str, samples: int) -> None:
        """Report this client's number of samples; only its first report in a run counts."""
        self._json("PUT", f"{run_address(run)}/samples/{samples}")

    def samples(self, run: str) -> dict[int, int]:
        """How many samples each client has reported, as aggregator."""
        return {int(client): int(count) for client, count in self.run(run)["samples"].items()}

    def rotate_sketch(self, run: str, row: checks.FloatVector) -> checks.FloatVector:
        """This client's first sketch of this run, rotated, as the aggregator may have it."""
        return answers.read_sketch(
            self._send("PUT", f"{run_address(run)}/sketch", body=answers.serialize_sketch(row)).content
        )

    def register_round(self, round_: Round) -> None:
        """Register a round and its members, as aggregator."""
        self._send("PUT", round_address(round_), body=describe_round(round_))

    def task(self, place: RoundAddress, *, start: str | None = None) -> RoundTask:
        """The data that this client needs for a round.

        In a run that releases to its aggregator, `start` is the hash of the model that the aggregator sent this client.
        """
        query = "" if start is None else f"?start={start}"
        return RoundTask.from_bytes(self._send("GET", f"{round_address(place)}/task{query}").content)

    def send_tag(self, tag: bytes, round_: Round) -> None:
        """Send this client's tag."""
        self._send("PUT", f"{round_address(round_)}/tag", body=tag)

    def tags(self, round_: Round) -> list[int]:
        """The clients whose tags have arrived, as aggregator."""
        return [int(client) for client in self._json("GET", f"{round_address(round_)}/tags")["clients"]]

    def release(self, aggregate: bytes, round_: Round) -> Acknowledgement:
        """Have a sum decrypted and verified, as aggregator."""
        address = f"{round_address(round_)}/aggregate"
        answer = self._send("PUT", address, body=aggregate, read_seconds=RELEASE_SECONDS)
        return Acknowledgement.from_bytes(answer.content)

    def released_sum(self, round_: Round) -> ReleasedSum:
        """A released sum, as the aggregator of a run that releases to it."""
        return answers.read_released(self._send("GET", f"{round_address(round_)}/sum").content, round_)

    def moved(self, place: RoundAddress, size: int) -> npt.NDArray[np.float32]:
        """How far this client's cluster has moved after the round; see `protocol.updates.model_from`."""
        return answers.read_moved(self._send("GET", f"{round_address(place)}/model").content, size)

    def _json(self, method: str, address: str, *, json: Any = None) -> dict[str, Any]:
        answer = self._send(method, address, json=json)
        try:
            fields = answer.json()
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            raise self._another("an answer that is no JSON object")
        return fields

    def _send(
        self,
        method: str,
        address: str,
        *,
        body: bytes | None = None,
        json: Any = None,
        read_seconds: float = READ_SECONDS,
    ) -> httpx.Response:
        """Send a request until it is answered, `tries` times at most."""
        headers = {"Content-Type": MESSAGE_TYPE} if body is not None else {}
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, read=read_seconds)
        for attempt in range(self._tries):
            last = attempt + 1 == self._tries
            try:
                answer = self._http.request(method, address, content=body, json=json, headers=headers, timeout=timeout)
            except httpx.TransportError as error:
                failure = self._explain(error)
                if last or failure.fix != _LATER:
                    raise failure from None
            else:
                if answer.headers.get(PROTOCOL_HEADER) != PROTOCOL and answer.status_code not in _TRY_AGAIN:
                    spoken = answer.headers.get(PROTOCOL_HEADER)
                    raise self._another(f"protocol {spoken[:20]}" if spoken else "no protocol of ours")
                if answer.is_success:
                    return answer
                problem = read_document(answer.content, answer.status_code)
                if last or answer.status_code not in _TRY_AGAIN or problem.code in _ONCE:
                    raise problem
            time.sleep(self._pause * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311  (not a secret)
        raise AssertionError("unreachable")

    def _another(self, what: str) -> Unreachable:
        fix = "check the address, and install the same version of sensecrypt on both sides"
        return Unreachable(self._url, f"speaks {what}, this is protocol {PROTOCOL} of sensecrypt {__version__}", fix)

    def _explain(self, error: httpx.TransportError) -> Unreachable:
        """The error in one line, and its fix."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLError):
            cause = cause.__cause__ or cause.__context__
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem, fix = f"its certificate is not accepted ({cause.verify_message})", _verify_fix(cause)
            return Unreachable(self._url, problem, fix)
        if isinstance(cause, ssl.SSLError) and "ALERT" in str(cause.reason):
            reason = str(cause.reason).lower().replace("_", " ")
            return Unreachable(self._url, f"it refuses this certificate ({reason})", _OWN)
        if isinstance(error, httpx.ConnectTimeout | httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout):
            return Unreachable(self._url, "does not answer in time", _LATER)
        if isinstance(error, httpx.ConnectError):
            return Unreachable(self._url, "cannot be connected to", _LATER)
        return Unreachable(self._url, "closed the connection without an answer", _LATER)


_OWN = "use a certificate of its authority that is valid today; its audit log has the reason of the refusal"
_LATER = f"check that it runs, and that this is its address; if so: {_OWN}"


def _verify_fix(error: ssl.SSLCertVerificationError) -> str:
    message = str(error.verify_message)
    if "expired" in message:
        return "have the service's certificate renewed, or set this machine's clock"
    if "not yet valid" in message:
        return "set this machine's clock, or the clock of its issuer"
    if "match" in message:
        return "use the name that its certificate is issued for"
    return "pass the authority that issued it"
