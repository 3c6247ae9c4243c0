"""The device clock: computes from measured work how long a run would last on the clients' devices.

A machine with two cores can simulate a hundred devices, but not in parallel. Each record therefore holds the client's
work as seconds on one core and as bytes. The clock divides seconds by the device's speed and bytes by its bandwidth:

    one exchange     train → select → encrypt → upload           ┊ server ┊ download → decrypt
    two exchanges    train → select → propose ┊ encrypt → upload ┊ server ┊ download → decrypt

Each ┊ is a barrier: all clients of a cluster reach it before any continues. A client's wait is the time it is idle at
barriers before the server. Clusters do not wait for each other: each starts its next round when its last one ended.
All clusters share one server, which processes their requests in order of arrival.

If encryption was not run, or ran with another implementation than the one to be timed, a `CostModel` gives the seconds
per ciphertext. Models do not depend on what is encrypted, so a calibrated run differs from a real one only in time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sensecrypt import checks
from sensecrypt.errors import InvalidInput
from sensecrypt.records import SETUP, ClientRecord, Facts, Played, ServerRecord, clients_of, servers_of
from sensecrypt.types import Device

_PROTECTING = ("protect_seconds", "encrypt_seconds", "order_protect_seconds", "order_encrypt_seconds")
_SERVING = (
    *("aggregate_seconds", "add_seconds", "release_seconds"),
    *("decrypt_seconds", "multiply_seconds", "add_plain_seconds"),
)
_OPERATIONS = (  # operation, field of its seconds, field of its ciphertexts
    ("encrypt", "encrypt_seconds", "encrypted_blocks"),
    ("encrypt", "order_encrypt_seconds", "order_blocks"),
    ("add", "add_seconds", "added_blocks"),
    ("decrypt", "decrypt_seconds", "decrypted_blocks"),
    ("multiply", "multiply_seconds", "multiplied_blocks"),
    ("add_plain", "add_plain_seconds", "plain_added_blocks"),
)
_Record = TypeVar("_Record", bound=Facts | ServerRecord)


@dataclass(frozen=True)
class CostModel:
    """The cost of one ciphertext per operation, in seconds on one core.

    Attributes:
        encrypt: encrypting it.
        add: adding it to a sum.
        decrypt: decrypting it.
        multiply: multiplying it by a client's weight; None: not measured, and an error if it is needed.
        add_plain: adding known numbers to it; None: as for `multiply`.
    """

    encrypt: float
    add: float
    decrypt: float
    multiply: float | None = None
    add_plain: float | None = None

    def __post_init__(self) -> None:
        """Refuse negative costs."""
        for name, cost in vars(self).items():
            if cost is not None or name not in ("multiply", "add_plain"):
                checks.number(name, cost, low=0.0)

    def cost(self, operation: str, blocks: float) -> float:
        """Return the seconds that `operation` takes on `blocks` ciphertexts."""
        each: float | None = getattr(self, operation)
        if each is None and blocks:
            fix = "measure it: measure_cost_model, or stock_cost_model"
            raise InvalidInput("cost_model", f"has no cost for operation {operation}", fix)
        return (each or 0.0) * blocks

    def apply(self, record: _Record) -> _Record:
        """Return the record with the measured seconds of its cryptography replaced by those of this model."""
        known = vars(record)
        modelled: dict[str, Any] = {
            seconds: self.cost(operation, _amount(record, blocks))
            for operation, seconds, blocks in _OPERATIONS
            if known.get(seconds) is not None or known.get(blocks) is not None
        }
        return replace(record, **modelled)


@dataclass(frozen=True)
class Steps:
    """The steps of a client's round, in seconds on its own device.

    Attributes:
        train: local training.
        select: computing sensitivities and selecting what to encrypt.
        encrypt: encoding and encrypting the upload, and the sensitivities when the order is refreshed.
        upload: sending the upload.
        download: receiving the model.
        decrypt: decrypting the sum, if clients hold the key.
        wait: idle time at barriers before the server. Waiting for the server or for the next round does not count.
    """

    train: float
    select: float
    encrypt: float
    upload: float
    download: float
    decrypt: float
    wait: float = 0.0

    @property
    def busy(self) -> float:
        """The sum of all steps without `wait`."""
        return self.train + self.select + self.encrypt + self.upload + self.download + self.decrypt


@dataclass(frozen=True)
class Span:
    """When the phases of a cluster's round happen, in seconds since the run's start.

    Attributes:
        start: clients begin.
        arrived: the last upload arrives.
        served: the server finishes.
        end: the last client has the model.
    """

    start: float
    arrived: float
    served: float
    end: float


@dataclass(frozen=True)
class RoundTime:
    """The duration of a round and of its parts.

    Attributes:
        number: the round's number; −1 is setup.
        seconds: from the round's start until the last client has the model, in the slowest cluster.
        server_seconds: the longest time that a cluster waits for aggregator and key server.
        clients: the steps of each client whose upload counted, by client.
        clusters: the phases of each cluster's round, by cluster.
    """

    number: int
    seconds: float
    server_seconds: float
    clients: dict[int, Steps]
    clusters: dict[int, Span] = field(default_factory=dict, compare=False)

    @property
    def client_seconds(self) -> list[float]:
        """Each client's busy time: without waiting and without the server."""
        return [steps.busy for steps in self.clients.values()]

    @property
    def straggler_share(self) -> float:
        """The mean wait for slower clients, as a share of the round."""
        if not self.clients or self.seconds == 0:
            return 0.0
        return sum(steps.wait for steps in self.clients.values()) / len(self.clients) / self.seconds


@dataclass(frozen=True)
class Pace:
    """How fast a client is, in seconds on its own device: the arguments of `deadline_budgets`.

    Attributes:
        plain: a round without encryption: training, and the upload in the clear.
        scoring: computing sensitivities, selection and protection.
        block: each additional encrypted block: encrypting it and sending the bytes by which it exceeds the plain block.
    """

    plain: float
    scoring: float
    block: float


def round_times(
    records: Iterable[Played],
    devices_of: Callable[[int], Sequence[Device]],
    *,
    server_cpus: float,
    cost_model: CostModel | None = None,
) -> list[RoundTime]:
    """Return how long each round of a run lasts on the clients' devices.

    Args:
        records: records of clients and servers, in any order.
        devices_of: returns the clients' devices in a round; setup uses those of round 0.
        server_cpus: processors of aggregator and key server.
        cost_model: seconds per ciphertext; None: use the measured times.

    Returns:
        One entry per round, ascending. If there are records of setup, it comes first.
    """
    checks.number("server_cpus", server_cpus, low=0.0, open_low=True)
    setup: list[Played] = []
    rounds: dict[int, dict[int, list[Played]]] = {}
    for record in records:
        number = checks.whole("round", record.round, low=SETUP)
        timed = record if cost_model is None else cost_model.apply(record)
        if number == SETUP:
            setup.append(timed)
        else:
            cluster = checks.whole("cluster", record.cluster, low=0)
            rounds.setdefault(number, {}).setdefault(cluster, []).append(timed)
    first = [_setup_time(setup, devices_of(0), server_cpus)] if setup else []
    durations: dict[int, list[_Duration]] = {}
    for number in sorted(rounds):
        for cluster, own in rounds[number].items():
            durations.setdefault(cluster, []).append(_duration(number, cluster, own, devices_of(number), server_cpus))
    spans = _schedule(durations, start=total_seconds(first))
    found = [*first]
    for number in sorted(rounds):
        of_round = [duration for each in durations.values() for duration in each if duration.number == number]
        by_cluster = {each.cluster: spans[number, each.cluster] for each in of_round}
        clients = {client: steps for each in of_round for client, steps in each.clients.items()}
        found.append(
            RoundTime(
                number,
                max(each.seconds(by_cluster[each.cluster]) for each in of_round),
                max(span.served - span.arrived for span in by_cluster.values()),
                dict(sorted(clients.items())),
                dict(sorted(by_cluster.items())),
            )
        )
    return found


def total_seconds(times: Iterable[RoundTime]) -> float:
    """Return the seconds from the start of the first of these rounds to the end of the last cluster's round."""
    spans = [span for time in times for span in time.clusters.values()]
    return max((span.end for span in spans), default=0.0) - min((span.start for span in spans), default=0.0)


def pace(
    record: ClientRecord,
    device: Device,
    *,
    size: int,
    block: int,
    value_bytes: float,
    ciphertext_bytes: float,
    cost_model: CostModel | None = None,
    block_seconds: float | None = None,
) -> Pace:
    """Return how fast a client is, from its record of a round.

    Args:
        record: the client's record; its upload was counted.
        device: the client's device.
        size: parameters of the model.
        block: parameters per ciphertext.
        value_bytes: bytes of a parameter that is sent in the clear.
        ciphertext_bytes: bytes of a ciphertext.
        cost_model: seconds per ciphertext; None: use the measured times.
        block_seconds: seconds per ciphertext on one core in an earlier round; needed if this one encrypted nothing.
    """
    if not record.counts:
        problem = f"is of client {record.client}, which was left out"
        raise InvalidInput("record", problem, "pass the client's last record that counted")
    checks.whole("size", size, low=1)
    checks.whole("block", block, low=1)
    checks.number("value_bytes", value_bytes, low=0.0)
    checks.number("ciphertext_bytes", ciphertext_bytes, low=0.0)
    longer = max(0.0, ciphertext_bytes - block * value_bytes)
    return Pace(
        plain=_compute(record, device, "train_seconds") + _transfer(size * value_bytes, device),
        scoring=_compute(record, device, "sensitivity_seconds", "select_seconds", "protect_seconds"),
        block=_block_seconds(record, cost_model, block_seconds) / device.speed + _transfer(longer, device),
    )


def answer_bandwidth(record: Facts, device: Device) -> float:
    """Return the bandwidth that the receiver of a client's answer measures, in megabytes per second.

    It is the answer's bytes divided by the whole delay until the last byte arrives, which includes computing.

    Args:
        record: the record of this answer alone, with its `bytes_up`.
        device: the client's device.
    """
    steps = _steps(record, device)
    size = _amount(record, "bytes_up")
    if size == 0:
        raise InvalidInput("record", "is of an answer without bytes", "pass a record with bytes_up")
    return size / 1e6 / (steps.train + steps.select + steps.encrypt + steps.upload)


def _block_seconds(record: ClientRecord, cost_model: CostModel | None, earlier: float | None) -> float:
    """Return the seconds per ciphertext on one core: of the cost model, else of this record, else the earlier ones."""
    if cost_model is not None:
        return cost_model.encrypt
    seconds, blocks = _amount(record, "encrypt_seconds"), _amount(record, "encrypted_blocks")
    if seconds > 0 and blocks > 0:
        return seconds / blocks
    if earlier is None:
        fix = "pass the value of an earlier round, or pass cost_model"
        raise InvalidInput("block_seconds", "is missing, and nothing was encrypted in this round", fix)
    return checks.number("block_seconds", earlier, low=0.0)


@dataclass(frozen=True)
class _Duration:
    """The durations of a cluster's round, independent of when it starts.

    Attributes:
        number: the round's number.
        cluster: the cluster's number.
        before: seconds until the last upload arrives.
        server: seconds of the server's work.
        after: seconds from then until the last client has the model.
        clients: each client's steps, by client.
    """

    number: int
    cluster: int
    before: float
    server: float
    after: float
    clients: dict[int, Steps]

    def seconds(self, span: Span) -> float:
        """Return the whole duration, including the wait at the server for other clusters."""
        return self.before + (span.served - span.arrived) + self.after


def _duration(
    number: int, cluster: int, records: list[Played], devices: Sequence[Device], server_cpus: float
) -> _Duration:
    played = _by_client(records)
    owned = {client: _device(devices, client, number) for client in played}
    steps = {client: _steps(record, owned[client]) for client, record in played.items()}
    phases = _phases(steps, {client: _proposal(record, owned[client]) for client, record in played.items()})
    ends = [max(phase.values(), default=0.0) for phase in phases]
    waits = {client: sum(end - phase[client] for end, phase in zip(ends, phases, strict=True)) for client in steps}
    server = sum(_amount(record, *_SERVING) for record in servers_of(records)) / server_cpus
    back = max((each.download + each.decrypt for each in steps.values()), default=0.0)
    clients = {client: replace(each, wait=waits[client]) for client, each in steps.items()}
    return _Duration(number, cluster, sum(ends), server, back, clients)


def _setup_time(records: list[Played], devices: Sequence[Device], server_cpus: float) -> RoundTime:
    """Return the duration of setup, in which all clients take part before clusters exist."""
    duration = _duration(SETUP, 0, records, devices, server_cpus)
    seconds = duration.before + duration.server + duration.after
    span = Span(0.0, duration.before, duration.before + duration.server, seconds)
    return RoundTime(SETUP, seconds, duration.server, duration.clients, {0: span})


def _schedule(durations: Mapping[int, Sequence[_Duration]], *, start: float) -> dict[tuple[int, int], Span]:
    """Return when each cluster's rounds happen. The server works for one cluster at a time, in order of arrival."""
    spans: dict[tuple[int, int], Span] = {}
    arrivals = [(start + own[0].before, cluster, 0, start) for cluster, own in durations.items()]
    heapq.heapify(arrivals)
    free = 0.0
    while arrivals:
        arrived, cluster, place, began = heapq.heappop(arrivals)
        duration = durations[cluster][place]
        free = max(arrived, free) + duration.server
        end = free + duration.after
        spans[duration.number, cluster] = Span(began, arrived, free, end)
        if place + 1 < len(durations[cluster]):
            heapq.heappush(arrivals, (end + durations[cluster][place + 1].before, cluster, place + 1, end))
    return spans


def _phases(steps: Mapping[int, Steps], proposals: Mapping[int, float]) -> list[dict[int, float]]:
    """Return each client's seconds from one barrier to the next: two phases if any client proposes first, else one."""
    first = {client: each.train + each.select + proposals[client] for client, each in steps.items()}
    second = {client: each.encrypt + each.upload - proposals[client] for client, each in steps.items()}
    if any(proposals.values()):
        return [first, second]
    return [{client: first[client] + second[client] for client in steps}]


def _steps(record: Facts, device: Device) -> Steps:
    return Steps(
        train=_compute(record, device, "train_seconds"),
        select=_compute(record, device, "sensitivity_seconds", "select_seconds"),
        encrypt=_compute(record, device, *_PROTECTING),
        upload=_transfer(_amount(record, "bytes_up"), device),
        download=_transfer(_amount(record, "bytes_down"), device),
        decrypt=_compute(record, device, "release_seconds", "decrypt_seconds"),
    )


def _proposal(record: ClientRecord, device: Device) -> float:
    """Return the seconds of the first exchange: the part of the upload that is sent before encrypting."""
    first = _amount(record, "propose_bytes")
    if first > _amount(record, "bytes_up"):
        problem = f"is {first:,.0f}, more than bytes_up of client {record.client}"
        raise InvalidInput("propose_bytes", problem, "count the first exchange in bytes_up too")
    return _transfer(first, device)


def _by_client(records: Iterable[Played]) -> dict[int, ClientRecord]:
    """Return the records whose upload counted, by client in ascending order."""
    played: dict[int, ClientRecord] = {}
    for record in clients_of(records):
        if not record.counts:
            continue
        client = checks.whole("client", record.client, low=0)
        if client in played:
            raise InvalidInput("records", f"has two of client {client} in round {record.round}", "pass one of them")
        played[client] = record
    return dict(sorted(played.items()))


def _device(devices: Sequence[Device], client: int, number: int) -> Device:
    if client >= len(devices):
        problem = f"gives {len(devices):,} devices, and client {client} has a record of round {number}"
        raise InvalidInput("devices_of", problem, "return one device per client, in the clients' order")
    return devices[client]


def _compute(record: Facts, device: Device, *names: str) -> float:
    """Return the named work in seconds on the device."""
    return _amount(record, *names) / device.speed


def _transfer(size: float, device: Device) -> float:
    """Return the seconds that the device takes to send or receive `size` bytes."""
    return size / (device.bandwidth * 1e6)


def _amount(record: Facts | ServerRecord, *names: str) -> float:
    """Return the sum of the named fields. A missing field counts as 0: a record holds only steps that were done."""
    known = vars(record)
    return sum(checks.number(name, known[name], low=0.0) for name in names if known.get(name) is not None)
