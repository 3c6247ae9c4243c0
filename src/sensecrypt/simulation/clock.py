"""The device clock: how long a run would have lasted on the clients' devices, from the work that was measured here.

A machine with two cores can play a hundred devices, but not at once. So every record tells its work as seconds on one
core and as bytes; a device turns them into its own seconds; and a round is as long as its slowest clients make it:

    one exchange     train → select → encrypt → upload           ┊ server ┊ download → decrypt
    two exchanges    train → select → propose ┊ encrypt → upload ┊ server ┊ download → decrypt

where ┊ is passed by nobody of a cluster before all of it have arrived. What a client stands there for others is its
wait. Clusters do not wait for each other: each begins its next round when its last one ended, and they meet only at the
server, which is one machine and serves whoever comes first.

Where encryption was not run, or by another implementation than the one to be timed, `CostModel` charge each ciphertext
instead: models do not depend on what is encrypted, so such a calibrated run differs from a real one in nothing else.
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
_CHARGED = (  # operation, seconds, ciphertexts
    ("encrypt", "encrypt_seconds", "encrypted_blocks"),
    ("encrypt", "order_encrypt_seconds", "order_blocks"),
    ("add", "add_seconds", "added_blocks"),
    ("decrypt", "decrypt_seconds", "decrypted_blocks"),
    ("multiply", "multiply_seconds", "multiplied_blocks"),
    ("add_plain", "add_plain_seconds", "plain_added_blocks"),
)
_Charged = TypeVar("_Charged", bound=Facts | ServerRecord)


@dataclass(frozen=True)
class CostModel:
    """What a ciphertext costs, in seconds on one core.

    Attributes:
        encrypt: to make one.
        add: to add one to a sum.
        decrypt: to open one.
        multiply: to multiply one by a client's weight; None: nobody measured it, and it cannot be charged.
        add_plain: to add a known number to one; None: likewise.
    """

    encrypt: float
    add: float
    decrypt: float
    multiply: float | None = None
    add_plain: float | None = None

    def __post_init__(self) -> None:
        """Refuse prices that would pay for being charged."""
        for name, price in vars(self).items():
            if price is not None or name not in ("multiply", "add_plain"):
                checks.number(name, price, low=0.0)

    def cost(self, operation: str, blocks: float) -> float:
        """What so many ciphertexts cost."""
        price: float | None = getattr(self, operation)
        if price is None and blocks:
            fix = "measure it: measure_cost_model, or stock_cost_model"
            raise InvalidInput("cost_model", f"have none for operation {operation}", fix)
        return (price or 0.0) * blocks

    def charge(self, record: _Charged) -> _Charged:
        """The record with the cryptography that it reports at these prices, instead of at what was measured."""
        known = vars(record)
        charged: dict[str, Any] = {
            seconds: self.cost(operation, _amount(record, blocks))
            for operation, seconds, blocks in _CHARGED
            if known.get(seconds) is not None or known.get(blocks) is not None
        }
        return replace(record, **charged)


@dataclass(frozen=True)
class Steps:
    """What a client did in a round, in seconds of its own device.

    Attributes:
        train: local training.
        select: sensitivities, and choosing by them what to encrypt.
        encrypt: encoding and encrypting the upload, and the sensitivities when the order is made anew.
        upload: sending all of it.
        download: receiving the model.
        decrypt: decrypting the sum, where clients hold the key.
        wait: standing idle for slower clients; neither for the server, nor at the end of the round.
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
        """All but waiting."""
        return self.train + self.select + self.encrypt + self.upload + self.download + self.decrypt


@dataclass(frozen=True)
class Span:
    """A cluster's round on the clock of the whole run, in seconds since the run's start.

    Attributes:
        start: clients begin.
        arrived: the last upload is there.
        served: the server is done with it.
        end: the last client has the model.
    """

    start: float
    arrived: float
    served: float
    end: float


@dataclass(frozen=True)
class RoundTime:
    """How long a round lasted, and what made it so.

    Attributes:
        number: of the round; −1 is setting up.
        seconds: from its start until the last client has the model, in the cluster where that takes longest.
        server_seconds: the part of it that clients wait for aggregator and key server, likewise.
        clients: the steps of each client whose upload counted, by client.
        clusters: when each cluster's round was.
    """

    number: int
    seconds: float
    server_seconds: float
    clients: dict[int, Steps]
    clusters: dict[int, Span] = field(default_factory=dict, compare=False)

    @property
    def client_seconds(self) -> list[float]:
        """Each client's own time, without waiting and without the server."""
        return [steps.busy for steps in self.clients.values()]

    @property
    def straggler_share(self) -> float:
        """The share of the round that the mean client waits for slower ones."""
        if not self.clients or self.seconds == 0:
            return 0.0
        return sum(steps.wait for steps in self.clients.values()) / len(self.clients) / self.seconds


@dataclass(frozen=True)
class Pace:
    """How fast a client is, in seconds of its own device: what `deadline_budgets` asks for.

    Attributes:
        plain: of a round without encryption: training, and the upload in the clear.
        scoring: of choosing: sensitivity, selection, protection.
        block: of one more encrypted block: encrypting it, and sending what it is longer than plain.
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
    """How long each round of a run lasts on the clients' devices.

    Args:
        records: what clients and servers did, in any order.
        devices_of: the devices in a round, one a client; setting up happens on those of round 0.
        server_cpus: processors of aggregator and key server.
        cost_model: of ciphertexts; None: what was measured.

    Returns:
        One a round, ascending, setting up first if there are records of it.
    """
    checks.number("server_cpus", server_cpus, low=0.0, open_low=True)
    setting_up: list[Played] = []
    rounds: dict[int, dict[int, list[Played]]] = {}
    for record in records:
        number = checks.whole("round", record.round, low=SETUP)
        charged = record if cost_model is None else cost_model.charge(record)
        if number == SETUP:
            setting_up.append(charged)
        else:
            cluster = checks.whole("cluster", record.cluster, low=0)
            rounds.setdefault(number, {}).setdefault(cluster, []).append(charged)
    first = [_setup_time(setting_up, devices_of(0), server_cpus)] if setting_up else []
    legs: dict[int, list[_Leg]] = {}
    for number in sorted(rounds):
        for cluster, own in rounds[number].items():
            legs.setdefault(cluster, []).append(_leg(number, cluster, own, devices_of(number), server_cpus))
    spans = _schedule(legs, start=total_seconds(first))
    found = [*first]
    for number in sorted(rounds):
        own_legs = [leg for each in legs.values() for leg in each if leg.number == number]
        lasted = {leg.cluster: spans[number, leg.cluster] for leg in own_legs}
        clients = {client: steps for leg in own_legs for client, steps in leg.clients.items()}
        found.append(
            RoundTime(
                number,
                max(leg.seconds_between(lasted[leg.cluster]) for leg in own_legs),
                max(lasted[leg.cluster].served - lasted[leg.cluster].arrived for leg in own_legs),
                dict(sorted(clients.items())),
                dict(sorted(lasted.items())),
            )
        )
    return found


def total_seconds(times: Iterable[RoundTime]) -> float:
    """From the start of the first of these rounds until the last cluster is done."""
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
    """How fast a client is, by what it did in a round.

    Args:
        record: of the client, with its upload counted.
        device: of the client.
        size: parameters of the model.
        block: parameters a ciphertext.
        value_bytes: length of a parameter that travels plain.
        ciphertext_bytes: length of a ciphertext.
        cost_model: of ciphertexts; None: what was measured.
        block_seconds: what one ciphertext took on one core in an earlier round, if none was made in this one.
    """
    if not record.counts:
        raise InvalidInput("record", "is of a client that was left out", "pass the last one whose upload counted")
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
    """Megabytes per second of a client's answer as whoever waits for it measures them: its bytes by its whole delay.

    The delay is all that the client does until the last byte has arrived, so computing counts, too.

    Args:
        record: of this answer alone, with its `bytes_up`.
        device: of the client.
    """
    steps = _steps(record, device)
    size = _amount(record, "bytes_up")
    if size == 0:
        raise InvalidInput("record", "is of an answer without bytes", "pass one with bytes_up")
    return size / 1e6 / (steps.train + steps.select + steps.encrypt + steps.upload)


def _block_seconds(record: ClientRecord, cost_model: CostModel | None, earlier: float | None) -> float:
    """What one ciphertext takes on one core: by its price, else as measured, else as measured before."""
    if cost_model is not None:
        return cost_model.encrypt
    seconds, blocks = _amount(record, "encrypt_seconds"), _amount(record, "encrypted_blocks")
    if seconds > 0 and blocks > 0:
        return seconds / blocks
    if earlier is None:
        fix = "pass it from an earlier round, or pass cost_model"
        raise InvalidInput("block_seconds", "is missing, and nothing was encrypted in this round", fix)
    return checks.number("block_seconds", earlier, low=0.0)


@dataclass(frozen=True)
class _Leg:
    """One cluster's round: what it takes, whenever it begins.

    Attributes:
        number: of the round.
        cluster: whose it is.
        before: seconds until the last upload is there.
        server: seconds of the server's work.
        after: seconds until the last client has the model.
        clients: their steps.
    """

    number: int
    cluster: int
    before: float
    server: float
    after: float
    clients: dict[int, Steps]

    def seconds_between(self, span: Span) -> float:
        """How long it lasted, with what it waited for other clusters at the server."""
        return self.before + (span.served - span.arrived) + self.after


def _leg(number: int, cluster: int, records: list[Played], devices: Sequence[Device], server_cpus: float) -> _Leg:
    played = _by_client(records)
    owned = {client: _device(devices, client, number) for client in played}
    steps = {client: _steps(record, owned[client]) for client, record in played.items()}
    phases = _phases(steps, {client: _proposal(record, owned[client]) for client, record in played.items()})
    ends = [max(phase.values(), default=0.0) for phase in phases]
    waits = {client: sum(end - phase[client] for end, phase in zip(ends, phases, strict=True)) for client in steps}
    server = sum(_amount(record, *_SERVING) for record in servers_of(records)) / server_cpus
    back = max((each.download + each.decrypt for each in steps.values()), default=0.0)
    clients = {client: replace(each, wait=waits[client]) for client, each in steps.items()}
    return _Leg(number, cluster, sum(ends), server, back, clients)


def _setup_time(records: list[Played], devices: Sequence[Device], server_cpus: float) -> RoundTime:
    """Setting up, which clients of all clusters do together."""
    leg = _leg(SETUP, 0, records, devices, server_cpus)
    seconds = leg.before + leg.server + leg.after
    span = Span(0.0, leg.before, leg.before + leg.server, seconds)
    return RoundTime(SETUP, seconds, leg.server, leg.clients, {0: span})


def _schedule(legs: Mapping[int, Sequence[_Leg]], *, start: float) -> dict[tuple[int, int], Span]:
    """When each cluster's rounds are: one after the other, the server working for one cluster at a time."""
    spans: dict[tuple[int, int], Span] = {}
    arrivals = [(start + own[0].before, cluster, 0, start) for cluster, own in legs.items()]
    heapq.heapify(arrivals)
    free = 0.0
    while arrivals:
        arrived, cluster, place, began = heapq.heappop(arrivals)
        leg = legs[cluster][place]
        free = max(arrived, free) + leg.server
        end = free + leg.after
        spans[leg.number, cluster] = Span(began, arrived, free, end)
        if place + 1 < len(legs[cluster]):
            heapq.heappush(arrivals, (end + legs[cluster][place + 1].before, cluster, place + 1, end))
    return spans


def _phases(steps: Mapping[int, Steps], proposals: Mapping[int, float]) -> list[dict[int, float]]:
    """Each client's seconds until everybody has to have arrived, for each time that everybody has to."""
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
    """The part of the upload that is sent first, before anything is encrypted."""
    first = _amount(record, "propose_bytes")
    if first > _amount(record, "bytes_up"):
        problem = f"is {first:,.0f}, more than bytes_up of client {record.client}"
        raise InvalidInput("propose_bytes", problem, "count the first exchange in bytes_up too")
    return _transfer(first, device)


def _by_client(records: Iterable[Played]) -> dict[int, ClientRecord]:
    """The records of clients whose upload counted, ascending."""
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
        raise InvalidInput("devices_of", problem, "return one device for each client, in their order")
    return devices[client]


def _compute(record: Facts, device: Device, *names: str) -> float:
    """Work, as seconds of the device."""
    return _amount(record, *names) / device.speed


def _transfer(size: float, device: Device) -> float:
    """Bytes, as seconds of the device."""
    return size / (device.bandwidth * 1e6)


def _amount(record: Facts | ServerRecord, *names: str) -> float:
    """The sum of a record's numbers, those that are not known being 0: a record holds only what was done."""
    known = vars(record)
    return sum(checks.number(name, known[name], low=0.0) for name in names if known.get(name) is not None)
