"""What is written down about a run: one record per client and round, one of the servers, and what happened besides.

A record is a line of JSON in `records.jsonl`, under the names of its fields; what is None was not measured or does not
apply, and is not written. Seconds are of work on one core, bytes those of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sensecrypt.errors import InvalidInput

SETUP = -1  # the number of what comes before the first round
_SHOWN = 40  # characters of a key, in an error
_NULLS = {"mi": "encrypted_share", "local_epsilon": "noise"}  # None is a finding where the other one is there


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a client reports of its part in a round, or of setting up.

    Attributes:
        train_seconds: of local training.
        sensitivity_seconds: of sensitivities.
        pass_seconds: of the gradient over all samples, while setting up.
        select_seconds: of choosing what to encrypt.
        protect_seconds: of encoding, blinding and tags.
        encrypt_seconds: of encryption.
        ahead_seconds: of randomness that was made before the round.
        encrypted_blocks: ciphertexts.
        order_protect_seconds: as above, of the sensitivities for a new order.
        order_encrypt_seconds: likewise.
        order_ahead_seconds: likewise.
        order_blocks: likewise.
        bytes_up: that it sent.
        bytes_down: that it received.
        encrypted_share: of the parameters.
        coverage: share of the sensitivity that is encrypted.
        mi: mutual information in bits; None: not computed.
        budget: α.
        decided_by: what decided how much is encrypted.
        feasible: whether all constraints held.
        clipped: whether the update was longer than allowed, where clients say so.
        failure: why a zero update was sent, where clients say so.
        layers: per layer, how many parameters are encrypted, and of how many.
        accuracy: of the model on data like the client's own.
    """

    train_seconds: float | None = None
    sensitivity_seconds: float | None = None
    pass_seconds: float | None = None
    select_seconds: float | None = None
    protect_seconds: float | None = None
    encrypt_seconds: float | None = None
    ahead_seconds: float | None = None
    encrypted_blocks: int | None = None
    order_protect_seconds: float | None = None
    order_encrypt_seconds: float | None = None
    order_ahead_seconds: float | None = None
    order_blocks: int | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None
    encrypted_share: float | None = None
    coverage: float | None = None
    mi: float | None = None
    budget: float | None = None
    decided_by: str | None = None
    feasible: bool | None = None
    clipped: bool | None = None
    failure: str | None = None
    layers: dict[str, list[int]] | None = None
    accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class ClientRecord(Facts):
    """A client's part in a round.

    Attributes:
        round: its number.
        cluster: the client's.
        client: which.
        left_out: why its upload did not count; None: it did.
        propose_bytes: of its first exchange, in methods with two; counted in `bytes_up`, too.
        release_seconds: of having a sum released, where clients share the key.
        decrypt_seconds: likewise.
        decrypted_blocks: likewise.
        noise: what Appendix G's noise protects, while setting up.
        local_epsilon: what that noise is worth; None: nothing.
        measured_bandwidth: megabytes per second of its first answer.
        metrics: figures of its cluster's model on its own test data, by name.
    """

    round: int
    cluster: int
    client: int
    left_out: str | None = None
    propose_bytes: int | None = None
    release_seconds: float | None = None
    decrypt_seconds: float | None = None
    decrypted_blocks: int | None = None
    noise: str | None = None
    local_epsilon: float | None = None
    measured_bandwidth: float | None = None
    metrics: dict[str, float] | None = None

    @property
    def counts(self) -> bool:
        """Whether its upload is in the sum."""
        return self.left_out is None


@dataclass(frozen=True, kw_only=True)
class ServerRecord:
    """What aggregator and key server did for a cluster in a round.

    Attributes:
        round: its number.
        cluster: whose.
        server: always.
        crypto: `real` or `calibrated`.
        aggregate_seconds: of adding, without the cryptography.
        add_seconds: of adding ciphertexts.
        added_blocks: ciphertexts added.
        multiply_seconds: of multiplying ciphertexts by weights.
        multiplied_blocks: ciphertexts multiplied.
        add_plain_seconds: of adding plain values into ciphertexts.
        plain_added_blocks: ciphertexts concerned.
        release_seconds: of having a sum released.
        decrypt_seconds: of decryption.
        decrypted_blocks: ciphertexts decrypted.
        union_share: share of the model that somebody encrypted.
        under_covered_blocks: encrypted by some, but by too few.
        no_new_order: why the cluster keeps its order although a new one was due.
        metrics: figures of the cluster's model on the test data, by name.
        records_lost: whether the sum was released and its records got lost with a coordinator.
    """

    round: int
    cluster: int
    server: bool = True
    crypto: str | None = None
    aggregate_seconds: float | None = None
    add_seconds: float | None = None
    added_blocks: int | None = None
    multiply_seconds: float | None = None
    multiplied_blocks: int | None = None
    add_plain_seconds: float | None = None
    plain_added_blocks: int | None = None
    release_seconds: float | None = None
    decrypt_seconds: float | None = None
    decrypted_blocks: int | None = None
    union_share: float | None = None
    under_covered_blocks: int | None = None
    no_new_order: str | None = None
    metrics: dict[str, float] | None = None
    records_lost: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A client's accuracy with the model of a round, which it reports when it fetches that model.

    Attributes:
        round: whose model.
        evaluated: the client.
        accuracy: of the model.
    """

    round: int
    evaluated: int
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A client or a node that was refused.

    Attributes:
        round: before whose end.
        refused: why.
        refused_client: which client; None: it did not prove to be one.
        node: of the transport.
        time: seconds since 1970.
    """

    round: int = SETUP
    refused: str
    refused_client: int | None = None
    node: int | None = None
    time: float | None = None


Record = ClientRecord | ServerRecord | Evaluation | Refusal
Played = ClientRecord | ServerRecord


@dataclass
class ClusterRecords:
    """The records of a cluster's round.

    Attributes:
        server: of aggregator and key server.
        clients: of every member.
    """

    server: ServerRecord
    clients: dict[int, ClientRecord]

    def all(self) -> list[Played]:
        """The clients' records, then the servers'."""
        return [*self.clients.values(), self.server]


_Growing = TypeVar("_Growing", bound=Facts | ServerRecord)
_KINDS: dict[str, type[Any]] = {
    "evaluated": Evaluation,
    "refused": Refusal,
    "server": ServerRecord,
    "client": ClientRecord,
}


def to_fields(record: Record | Facts) -> dict[str, Any]:
    """A record for JSON: what is known of it."""
    found = vars(record)
    kept = {name: value for name, value in found.items() if value is not None}
    return kept | {name: None for name, other in _NULLS.items() if name in found and name not in kept and other in kept}


def read_record(content: Any) -> Record:
    """The record in a line of `records.jsonl`, or `InvalidInput`."""
    fix = "restore the file, or start the run again in another folder"
    kind = next((_KINDS[key] for key in _KINDS if isinstance(content, dict) and key in content), None)
    if kind is None:
        raise InvalidInput("record", "is neither of a client nor of a server", fix)
    types = _TYPES[kind]
    for name, value in content.items():
        if name not in types:
            raise InvalidInput(name[:_SHOWN], "is no key of such a record", fix)
        if not isinstance(value, types[name]) or (isinstance(value, bool) and bool not in types[name]):
            raise InvalidInput(name, "has another type than records have", fix)
    try:
        record: Record = kind(**content)
    except TypeError:
        raise InvalidInput("record", "lacks its round, its cluster or its client", fix) from None
    return record


def grown(record: _Growing, more: Facts | Mapping[str, Any]) -> _Growing:
    """The record with more: numbers that are known grow; everything else is set."""
    news = to_fields(more) if isinstance(more, Facts) else more
    known, changed = vars(record), dict[str, Any]()
    for name, value in news.items():
        adds = isinstance(value, (int, float)) and not isinstance(value, bool) and known[name] is not None
        changed[name] = known[name] + value if adds else value
    return replace(record, **changed)


def clients_of(records: Iterable[Record]) -> list[ClientRecord]:
    """Those of clients."""
    return [record for record in records if isinstance(record, ClientRecord)]


def servers_of(records: Iterable[Record]) -> list[ServerRecord]:
    """Those of servers."""
    return [record for record in records if isinstance(record, ServerRecord)]


def only_played(records: Iterable[Record]) -> list[Played]:
    """The records of clients and servers, without those of what happened besides."""
    return [record for record in records if isinstance(record, (ClientRecord, ServerRecord))]


def _types(kind: Any) -> dict[str, tuple[type, ...]]:
    """Field by field, what its value may be."""
    hints, found = get_type_hints(kind), {}
    for each in fields(kind):
        options = get_args(hints[each.name]) if isinstance(hints[each.name], UnionType) else (hints[each.name],)
        plain = tuple(get_origin(option) or option for option in options)
        allowed = tuple(option for option in plain if option is not NoneType or each.name in _NULLS)
        found[each.name] = (*allowed, int) if float in plain else allowed
    return found


_TYPES = {kind: _types(kind) for kind in _KINDS.values()}
