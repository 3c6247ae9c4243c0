"""What the wrapper sends to the mod, one ConfigRecord beside the app's own; and what the mod replies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from sensecrypt.errors import Rejected
from sensecrypt.flower.coding import Terms
from sensecrypt.protocol.round import RoundAddress

RECORD = "sensecrypt"
VERSION = 1
IN_PROCESS = "in-process"
UPLOAD, TAG = "sensecrypt.upload.v1", "sensecrypt.tag.v1"  # serialization types of Flower's arrays
_KINDS: dict[str, type] = {
    "run": str,
    "round": int,
    "client": int,
    "key-service": str,
    "bound": float,
    "least-examples": float,
    "most-examples": float,
    "weighted-by": str,
    "mask": bytes,
    "task": bytes,
    "public-key": bytes,
}


@dataclass(frozen=True)
class Instructions:
    """One client's part in a round.

    Attributes:
        run: its name.
        number: of the round.
        client: this client's number in the run.
        key_service: `in-process`, or the address of the key service.
        terms: equal for all members.
        weighted_by: the metric with the number of a client's examples.
        mask: which blocks to encrypt, as bits.
        task: the round and the seed of its tags, from an in-process key service; else empty.
        public_key: as JSON, from an in-process key service; else empty.
    """

    run: str
    number: int
    client: int
    key_service: str
    terms: Terms
    weighted_by: str
    mask: bytes
    task: bytes = field(default=b"", repr=False)
    public_key: bytes = b""

    @property
    def address(self) -> RoundAddress:
        """The address of the round at the key service."""
        return RoundAddress(self.run, self.number, 0, "model", 0)

    def to_record(self) -> ConfigRecord:
        """The record that the mod reads."""
        return ConfigRecord(
            {
                "version": VERSION,
                "run": self.run,
                "round": self.number,
                "client": self.client,
                "key-service": self.key_service,
                "bound": self.terms.bound,
                "least-examples": self.terms.least,
                "most-examples": self.terms.most,
                "weighted-by": self.weighted_by,
                "mask": self.mask,
                "task": self.task,
                "public-key": self.public_key,
            }
        )

    @classmethod
    def from_record(cls, record: ConfigRecord) -> Instructions:
        """Read such a record, or raise `Rejected`."""
        if record.get("version") != VERSION:
            version = str(record.get("version"))[:20]
            raise Rejected(
                f"the ServerApp has version {version} of sensecrypt.flower's messages, this node {VERSION}: "
                "install the same version of sensecrypt on both sides"
            )
        if any(type(record.get(name)) is not kind for name, kind in _KINDS.items()):
            raise Rejected("instructions of the ServerApp's SenseCrypt with missing or mistyped fields")
        fields: dict[str, Any] = dict(record)
        terms = Terms(fields["bound"], fields["least-examples"], fields["most-examples"])
        return cls(
            fields["run"],
            fields["round"],
            fields["client"],
            fields["key-service"],
            terms,
            fields["weighted-by"],
            fields["mask"],
            fields["task"],
            fields["public-key"],
        )


def pack_reply(upload: bytes, tag: bytes | None) -> ArrayRecord:
    """The reply's arrays: the upload, and the tag if there is no key service to send it to."""
    arrays = {"upload": _bytes(upload, UPLOAD)}
    if tag is not None:
        arrays["tag"] = _bytes(tag, TAG)
    return ArrayRecord(arrays)


def unpack_reply(content: RecordDict, *, with_tag: bool) -> tuple[bytes, bytes]:
    """The upload and the tag in a reply, as bytes; `Rejected` if the reply has other arrays."""
    records = list(content.array_records.values())
    if len(records) != 1:
        raise Rejected(f"a reply with {len(records)} ArrayRecords, where one is expected")
    arrays = dict(records[0])
    if any(array.stype == "numpy.ndarray" for array in arrays.values()):
        raise Rejected("a reply with plain arrays: add sensecrypt_mod to the ClientApp's mods")
    expected = {"upload": UPLOAD, "tag": TAG} if with_tag else {"upload": UPLOAD}
    if arrays.keys() != expected.keys():
        raise Rejected("a reply whose arrays are not those of sensecrypt_mod")
    for name, stype in expected.items():
        array = arrays[name]
        if array.stype != stype or array.dtype != "bytes" or tuple(array.shape) != (len(array.data),):
            raise Rejected(f"a reply whose {name} is no {stype}: install the same version of sensecrypt on both sides")
    return arrays["upload"].data, arrays["tag"].data if with_tag else b""


def _bytes(data: bytes, stype: str) -> Array:
    return Array(dtype="bytes", shape=(len(data),), stype=stype, data=data)
