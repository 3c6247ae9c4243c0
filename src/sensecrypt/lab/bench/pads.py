"""`sensecrypt bench pads`: hiding a model by a pad against encrypting it and against not hiding it, on one core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.lab.bench.protocol import Times
from sensecrypt.models import build_model, get_vector
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.client import Sealed, seal_model
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

CLIENTS = 20
PLAIN, PADDED, ENCRYPTED = "plain", "padded", "encrypted"


@dataclass(frozen=True)
class Row:
    """One way to send a whole model.

    Attributes:
        way: `plain`, `padded` or `encrypted`.
        seal_seconds: of a client.
        add_seconds: of the aggregator, for one upload.
        open_seconds: of the key server, for the sum of all.
        upload_bytes: of a client.
    """

    way: str
    seal_seconds: float
    add_seconds: float
    open_seconds: float
    upload_bytes: int


@dataclass(frozen=True)
class Report:
    """All ways, with the same models; whatever the way, the opened sum was the same."""

    model: str
    parameters: int
    clients: int
    rows: list[Row]


def run(*, model: str, repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Clients that send their whole model, one way after the other; medians."""
    weights = get_vector(build_model(model, seed=seed))
    public, secret = generate_keypair("paillier-2048")
    public.prepare()
    server = KeyServer(secret)
    times: dict[str, Times] = {way: Times() for way in (PLAIN, PADDED, ENCRYPTED)}
    sizes: dict[str, int] = {}
    for repeat in range(repeats):
        sums = set()
        for number, way in enumerate(times):
            on_step(f"{way}, repeat {repeat + 1} of {repeats}")
            shares = dict.fromkeys(range(CLIENTS), 1 / CLIENTS)
            round_ = Round("bench", repeat, number, "model", weights.size, public.profile, shares)
            blocks = round_.blocks if way == ENCRYPTED else 0
            mask, total = Mask.prefix(blocks, size=round_.size, block=round_.block), RoundSum(round_, public)
            receipts = server.receipt_seed(round_)
            for client in shares:
                sealed: Sealed = times[way].of(
                    "seal",
                    seal_model,
                    weights,
                    mask,
                    round_,
                    client=client,
                    key=public,
                    seed=receipts,
                    padded=way == PADDED,
                )
                times[way].of("add", total.add, sealed.upload, sender=client)
                server.take_receipt(sealed.receipt, round_, sender=client)
                sizes[way] = len(sealed.upload)
            opened = times[way].of("open", server.open, total.close().to_bytes(round_), round_)
            sums.add(opened.values.tobytes())
        if len(sums) != 1:
            raise AssertionError("the sums differ")
    middle = {way: {step: median(each) for step, each in times[way].items()} for way in times}
    rows = [Row(way, each["seal"], each["add"], each["open"], sizes[way]) for way, each in middle.items()]
    return Report(model, weights.size, CLIENTS, rows)
