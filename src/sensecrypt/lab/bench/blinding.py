"""`sensecrypt bench blinding`: a blinded model against encrypted ones and a plain one, on one core."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.lab.bench.measure import Times
from sensecrypt.lab.bench.table import Shown, described, milliseconds, ratio
from sensecrypt.models import build_model, get_vector
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.protection import protect_model
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

CLIENTS = 20
PLAIN, BLINDED = "plain", "blinded"
PROFILES = ("ring-2048x4", "paillier-2048")


@dataclass(frozen=True)
class Row:
    """One way to send a whole model.

    Attributes:
        way: `plain`, `blinded`, or the profile under which everything is encrypted.
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
    repeats: int
    rows: list[Row]


def run(*, model: str, repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Clients that send their whole model, one way after the other; medians."""
    weights = get_vector(build_model(model, seed=seed))
    keys = {profile: generate_keypair(profile) for profile in PROFILES}
    servers = {profile: KeyServer(secret) for profile, (_, secret) in keys.items()}
    for public, _ in keys.values():
        public.encrypt([0])  # builds its tables
    times = {way: Times(clocks.process_time) for way in (PLAIN, BLINDED, *PROFILES)}
    sizes: dict[str, int] = {}
    shares = dict.fromkeys(range(CLIENTS), 1 / CLIENTS)
    for repeat in range(repeats):
        sums = set()
        for number, (way, time) in enumerate(times.items()):
            on_step(f"{way}, repeat {repeat + 1} of {repeats}")
            profile = way if way in PROFILES else PROFILES[0]
            public, server = keys[profile][0], servers[profile]
            round_ = Round("bench", repeat, number, "model", weights.size, public.profile, shares)
            blocks = round_.blocks if way in PROFILES else 0
            mask, total = Mask.prefix(blocks, size=round_.size, block=round_.block), RoundSum(round_, public)
            one = partial(protect_model, weights, mask, round_, key=public, blinded=way == BLINDED)
            tags = server.tag_seed(round_)
            for client in shares:
                protected = time.of("protect", partial(one, client=client, seed=tags))
                time.of("add", partial(total.add, protected.upload, sender=client))
                server.take_tag(protected.tag, round_, sender=client)
                sizes[way] = len(protected.upload)
            released = time.of("release", partial(server.release, total.close().to_bytes(round_), round_))
            sums.add(released.values.tobytes())
        if len(sums) != 1:
            raise AssertionError("the sums differ")
    middle = {way: time.medians for way, time in times.items()}
    rows = [Row(way, each["protect"], each["add"], each["release"], sizes[way]) for way, each in middle.items()]
    return Report(model, weights.size, CLIENTS, repeats, rows)


def shown(report: Report) -> Iterator[Shown]:
    """The table, with ratios to what is sent in the open."""
    plain = report.rows[0]
    yield described(
        f"{report.model}, {report.parameters:,} parameters, {report.clients} clients, one core, processor time; "
        f"ratio: to plain (medians of {report.repeats})",
        [
            ("method", "way"),
            ("client, ms", milliseconds("protect_seconds")),
            ratio("protect_seconds", plain.protect_seconds),
            ("aggregator per upload, ms", milliseconds("add_seconds")),
            ratio("add_seconds", plain.add_seconds),
            ("key server, ms", milliseconds("release_seconds")),
            ratio("release_seconds", plain.release_seconds),
            ("bytes up", "upload_bytes:,"),
        ],
        report.rows,
    )
