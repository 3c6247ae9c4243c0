"""`sensecrypt bench blinding`: a blinded model against encrypted ones and a plain one, on one core."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterator
from functools import partial

from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.lab.bench.measure import Times
from sensecrypt.lab.bench.table import Report, Shown, described, milliseconds, ratio
from sensecrypt.models import build_model, get_vector
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.protection import protect_model
from sensecrypt.protocol.round import Round
from sensecrypt.types import Mask

CLIENTS = 20
PLAIN, BLINDED = "plain", "blinded"
PROFILES = ("ring-2048x4", "paillier-2048")


def run(*, model: str, repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Send the clients' whole models in each way in turn; medians.

    The aggregator's seconds are per upload, the key server's for the sum of all. All ways release the same sum.
    """
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
    rows = [
        {"way": way, **{f"{step}_seconds": each[step] for step in ("protect", "add", "release")}}
        | {"upload_bytes": sizes[way]}
        for way, each in middle.items()
    ]
    return {"model": model, "parameters": weights.size, "clients": CLIENTS, "repeats": repeats, "rows": rows}


def shown(report: Report) -> Iterator[Shown]:
    """The table, with ratios to plain sending."""
    plain = report["rows"][0]
    yield described(
        "{model}, {parameters:,} parameters, {clients} clients, one core, processor time; ratio: to plain (medians of "
        "{repeats})".format(**report),
        [
            ("method", "way"),
            ("client, ms", milliseconds("protect_seconds")),
            ratio("protect_seconds", plain["protect_seconds"]),
            ("aggregator per upload, ms", milliseconds("add_seconds")),
            ratio("add_seconds", plain["add_seconds"]),
            ("key server, ms", milliseconds("release_seconds")),
            ratio("release_seconds", plain["release_seconds"]),
            ("MB up", lambda row: f"{row['upload_bytes'] / 1e6:.2f}"),
        ],
        report["rows"],
    )
