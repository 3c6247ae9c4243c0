"""`sensecrypt bench blinding`: a blinded model against an encrypted one and one in the open, on one core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.lab.bench.protocol import Times
from sensecrypt.models import build_model, get_vector
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.protection import ProtectedUpdate, protect_model
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

CLIENTS = 20
PLAIN, BLINDED, ENCRYPTED = "plain", "blinded", "encrypted"


@dataclass(frozen=True)
class Row:
    """One way to send a whole model.

    Attributes:
        way: `plain`, `blinded` or `encrypted`.
        protect_seconds: of a client.
        add_seconds: of the aggregator, for one upload.
        release_seconds: of the key server, for the sum of all.
        upload_bytes: of a client.
    """

    way: str
    protect_seconds: float
    add_seconds: float
    release_seconds: float
    upload_bytes: int


@dataclass(frozen=True)
class Report:
    """All ways, with the same models; whatever the way, the released sum was the same."""

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
    times: dict[str, Times] = {way: Times() for way in (PLAIN, BLINDED, ENCRYPTED)}
    sizes: dict[str, int] = {}
    for repeat in range(repeats):
        sums = set()
        for number, way in enumerate(times):
            on_step(f"{way}, repeat {repeat + 1} of {repeats}")
            shares = dict.fromkeys(range(CLIENTS), 1 / CLIENTS)
            round_ = Round("bench", repeat, number, "model", weights.size, public.profile, shares)
            blocks = round_.blocks if way == ENCRYPTED else 0
            mask, total = Mask.prefix(blocks, size=round_.size, block=round_.block), RoundSum(round_, public)
            tags = server.tag_seed(round_)
            for client in shares:
                protected: ProtectedUpdate = times[way].of(
                    "protect",
                    protect_model,
                    weights,
                    mask,
                    round_,
                    client=client,
                    key=public,
                    seed=tags,
                    blinded=way == BLINDED,
                )
                times[way].of("add", total.add, protected.upload, sender=client)
                server.take_tag(protected.tag, round_, sender=client)
                sizes[way] = len(protected.upload)
            released = times[way].of("release", server.release, total.close().to_bytes(round_), round_)
            sums.add(released.values.tobytes())
        if len(sums) != 1:
            raise AssertionError("the sums differ")
    middle = {way: {step: median(each) for step, each in times[way].items()} for way in times}
    rows = [Row(way, each["protect"], each["add"], each["release"], sizes[way]) for way, each in middle.items()]
    return Report(model, weights.size, CLIENTS, rows)
