"""The records of a run: one per client and round, one of the servers per cluster and round, and other events.

A record is a line of JSON in `records.jsonl` whose keys are the field names. A field that is None was not measured or
does not apply, and is not written. Seconds are work on one core; bytes are lengths of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sensecrypt.errors import InvalidInput

SETUP = -1  # the round number of setup, which precedes the first round
_SHOWN = 40  # characters of a key that an error shows
_NULLS = {"mi": "encrypted_share", "local_epsilon": "noise"}  # None is a result, and written, if the second is known


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a client reports about a round or about setup.

    Attributes:
        train_seconds: seconds of local training.
        sensitivity_seconds: seconds of computing sensitivities.
        pass_seconds: seconds of the gradient over all samples, during setup.
        select_seconds: seconds of selecting what to encrypt.
        protect_seconds: seconds of encoding, blinding and computing MAC tags.
        encrypt_seconds: seconds of encryption.
        ahead_seconds: seconds of randomizers that were computed before the round.
        encrypted_blocks: number of encrypted blocks.
        order_protect_seconds: like `protect_seconds`, for the sensitivities of a new order.
        order_encrypt_seconds: like `encrypt_seconds`, for the sensitivities of a new order.
        order_ahead_seconds: like `ahead_seconds`, for the sensitivities of a new order.
        order_blocks: like `encrypted_blocks`, for the sensitivities of a new order.
        bytes_up: bytes that the client sent.
        bytes_down: bytes that the client received.
        encrypted_share: share of the parameters that is encrypted.
        coverage: share of the sensitivity that is encrypted.
        mi: mutual information in bits; None: not computed.
        budget: α.
        decided_by: the constraint that decided how much is encrypted.
        feasible: whether all constraints held.
        clipped: whether the update was longer than the bound; only if clients report it.
        failure: why a zero update was sent; only if clients report it.
        layers: by layer, the number of encrypted parameters and of all parameters.
        accuracy: accuracy of the model on data like the client's own.
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
    """The record of a client in a round.

    Attributes:
        round: the round's number.
        cluster: the client's cluster.
        client: the client's number.
        left_out: why the upload did not count; None: it counted.
        propose_bytes: bytes of the first exchange, in methods with two; included in `bytes_up`.
        release_seconds: seconds of releasing the sum without decryption, if clients share the key.
        decrypt_seconds: seconds of decryption, if clients share the key.
        decrypted_blocks: number of decrypted ciphertexts, if clients share the key.
        noise: what the noise of Appendix G protects (`vector` or `sample`), during setup.
        local_epsilon: the local ε of that noise; None: no guarantee.
        measured_bandwidth: megabytes per second of the client's first answer.
        metrics: figures of the cluster's model on the client's own test data, by name.
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
        """Whether the client's upload is in the sum."""
        return self.left_out is None


@dataclass(frozen=True, kw_only=True)
class ServerRecord:
    """The record of aggregator and key server for a cluster in a round.

    Attributes:
        round: the round's number.
        cluster: the cluster's number.
        server: always true; marks the kind of record.
        crypto: `real` or `calibrated`.
        aggregate_seconds: seconds of aggregation, without cryptography.
        add_seconds: seconds of adding ciphertexts.
        added_blocks: number of added ciphertexts.
        multiply_seconds: seconds of multiplying ciphertexts by weights.
        multiplied_blocks: number of multiplied ciphertexts.
        add_plain_seconds: seconds of adding plain values to ciphertexts.
        plain_added_blocks: number of ciphertexts to which plain values were added.
        release_seconds: seconds of releasing a sum, without decryption.
        decrypt_seconds: seconds of decryption.
        decrypted_blocks: number of decrypted ciphertexts.
        union_share: share of the model that at least one client encrypted.
        under_covered_blocks: number of blocks that some clients encrypted, but too few.
        no_new_order: why the cluster kept its order although a new one was due.
        metrics: figures of the cluster's model on the test data, by name.
        records_lost: whether the sum was released, but its records were lost when the coordinator ended.
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
    """The accuracy of a round's model, which a client reports when it fetches that model.

    Attributes:
        round: the round that gave the model.
        evaluated: the client.
        accuracy: the model's accuracy.
    """

    round: int
    evaluated: int
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The refusal of a client or a node.

    Attributes:
        round: the round before whose end it happened.
        refused: the reason.
        refused_client: the client; None: the node proved no client identity.
        node: the node's number in the transport.
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
        server: the record of aggregator and key server.
        clients: the record of every member, by client.
    """

    server: ServerRecord
    clients: dict[int, ClientRecord]

    def all(self) -> list[Played]:
        """Return the clients' records, then the servers'."""
        return [*self.clients.values(), self.server]


_Growing = TypeVar("_Growing", bound=Facts | ServerRecord)
_KINDS: dict[str, type[Any]] = {
    "evaluated": Evaluation,
    "refused": Refusal,
    "server": ServerRecord,
    "client": ClientRecord,
}


def to_fields(record: Record | Facts) -> dict[str, Any]:
    """Return the known fields of a record, for JSON."""
    found = vars(record)
    kept = {name: value for name, value in found.items() if value is not None}
    return kept | {name: None for name, other in _NULLS.items() if name in found and name not in kept and other in kept}


def read_record(content: Any) -> Record:
    """Return the record in a parsed line of `records.jsonl`; raise `InvalidInput` if it is not one."""
    fix = "restore the file, or start the run again in another folder"
    kind = next((_KINDS[key] for key in _KINDS if isinstance(content, dict) and key in content), None)
    if kind is None:
        raise InvalidInput("record", "is of no known kind", fix)
    types = _TYPES[kind]
    for name, value in content.items():
        if name not in types:
            raise InvalidInput(name[:_SHOWN], "is not a key of such a record", fix)
        if not isinstance(value, types[name]) or (isinstance(value, bool) and bool not in types[name]):
            raise InvalidInput(name, "has the wrong type", fix)
    try:
        record: Record = kind(**content)
    except TypeError:
        raise InvalidInput("record", "lacks its round, its cluster or its client", fix) from None
    return record


def grown(record: _Growing, more: Facts | Mapping[str, Any]) -> _Growing:
    """Return the record with `more` applied: known numbers are increased, all other fields are set."""
    news = to_fields(more) if isinstance(more, Facts) else more
    known, changed = vars(record), dict[str, Any]()
    for name, value in news.items():
        adds = isinstance(value, (int, float)) and not isinstance(value, bool) and known[name] is not None
        changed[name] = known[name] + value if adds else value
    return replace(record, **changed)


def clients_of(records: Iterable[Record]) -> list[ClientRecord]:
    """Return the records of clients."""
    return [record for record in records if isinstance(record, ClientRecord)]


def servers_of(records: Iterable[Record]) -> list[ServerRecord]:
    """Return the records of servers."""
    return [record for record in records if isinstance(record, ServerRecord)]


def only_played(records: Iterable[Record]) -> list[Played]:
    """Return the records of clients and servers, without evaluations and refusals."""
    return [record for record in records if isinstance(record, (ClientRecord, ServerRecord))]


def _types(kind: Any) -> dict[str, tuple[type, ...]]:
    """Return the allowed types of each field."""
    hints, found = get_type_hints(kind), {}
    for each in fields(kind):
        options = get_args(hints[each.name]) if isinstance(hints[each.name], UnionType) else (hints[each.name],)
        plain = tuple(get_origin(option) or option for option in options)
        allowed = tuple(option for option in plain if option is not NoneType or each.name in _NULLS)
        found[each.name] = (*allowed, int) if float in plain else allowed
    return found


_TYPES = {kind: _types(kind) for kind in _KINDS.values()}
