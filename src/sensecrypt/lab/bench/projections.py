"""`sensecrypt bench projections`: the cost of a bound on each client's norm by random projections, which is not built.

A challenge r of one sign per block is drawn after all uploads have arrived. The aggregator forms Σ_b r_b·C_b of one
client's ciphertexts: one ciphertext, whose slots each hold a projection of the values at that slot of every block. The
sum of their squares is an unbiased estimate of the squared norm of the update. Blinded values are combined in the same
way, and the key server subtracts the same combination of the blinding values.

It is not built because the key server would learn as many linear combinations of one client's update as a ciphertext
has slots. With them it could confirm guesses, which blinded tags prevent; only secure computation between both servers
would hide them. Also, the aggregator would have to keep uploads until the challenge is drawn, unless clients commit to
them at the key server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import gmpy2
import numpy as np
import numpy.typing as npt

from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.paillier.public import PublicKey
from sensecrypt.crypto.scheme import Ciphertexts, Ints
from sensecrypt.lab.bench.measure import Times
from sensecrypt.lab.bench.table import Report, Row, Shown, described, milliseconds
from sensecrypt.models import build_model, get_vector
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.messages import Tag, Upload
from sensecrypt.protocol.protection import model_format, protect_model
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import Blinding, wrap
from sensecrypt.types import Mask

PROFILE: Final = "paillier-2048"
ENCRYPTED, BLINDED = "encrypted", "blinded"
_DRAWS = 200  # challenges over which the error is averaged
_MEMBERS = 8

Signs = npt.NDArray[np.int64]


def run(*, model: str, challenges: tuple[int, ...], repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Project one client's upload for several numbers of challenges per client; medians.

    The update is the difference of two initial models, so its layers differ in size. Seconds and bytes are per client.
    `kept_bytes` is the upload that the aggregator keeps until the challenge is drawn; `projections` is the number of
    linear combinations that the key server learns; `error` is the root mean square of the relative error of the norm.
    A service would draw challenges from the operating system, not from `seed`.
    """
    update = (get_vector(build_model(model, seed=seed)) - get_vector(build_model(model, seed=seed + 1))) / 10
    rng, (public, secret) = np.random.default_rng(seed), generate_keypair(PROFILE)
    public.prepare()
    weights = dict.fromkeys(range(_MEMBERS), 1 / _MEMBERS)
    round_ = Round("bench", 0, 0, "model", update.size, public.profile, weights)
    values = model_format(round_).encode(update, round_.share(0))
    rows = []
    for way in (ENCRYPTED, BLINDED):
        mask = Mask.prefix(round_.blocks if way == ENCRYPTED else 0, size=round_.size, block=round_.block)
        protected, other = (
            protect_model(update, mask, round_, client=client, key=public, seed=bytes(32), blinded=way == BLINDED)
            for client in (0, 1)
        )
        upload, blinding = Upload.from_bytes(protected.upload, round_), Tag.from_bytes(protected.tag, round_).blinding
        for many in challenges:
            times = Times()
            for repeat in range(repeats):
                on_step(f"{way}, {many} challenge(s), repeat {repeat + 1} of {repeats}")
                total = RoundSum(round_, public)
                total.add(other.upload, sender=1)  # adding the first upload costs less
                times.of("add", partial(total.add, protected.upload, sender=0))
                signs = rng.choice(np.array([-1, 1]), size=(many, round_.blocks))
                if way == ENCRYPTED:
                    sums = times.of("project", partial(combine_ciphertexts, public, upload.ciphertexts, signs))
                    decrypted = times.of("server", partial(secret.decrypt, sums, many * round_.block))
                    found = decrypted.reshape(many, -1)
                else:
                    sent = times.of("project", partial(combine_values, upload.plain, signs, round_))
                    hidden = times.of("server", partial(_blinding_values, blinding, signs, round_))
                    found = wrap(sent - hidden, round_)
                if not np.array_equal(found, combine_values(values, signs, round_)):
                    raise AssertionError("the projections differ from those of the update")
            extra = many * (
                public.profile.ciphertext_bytes if way == ENCRYPTED else round_.block * public.profile.slot_bits // 8
            )
            timed: Row = {f"{step}_seconds": times.medians[step] for step in ("add", "project", "server")}
            timed |= {"extra_bytes": extra, "kept_bytes": len(protected.upload), "projections": many * round_.block}
            error = norm_error(values, many, round_, rng=rng)
            rows.append({"way": way, "challenges": many, **timed, "error": error})
    return {"model": model, "parameters": update.size, "repeats": repeats, "rows": rows}


def shown(report: Report) -> Iterator[Shown]:
    """The table, and the information that the key server would learn."""
    yield described(
        "{model}, {parameters:,} parameters, per client, one core; ratio: to adding the upload once (medians of "
        "{repeats})".format(**report),
        [
            ("upload", "way"),
            ("challenges", "challenges"),
            ("add, ms", milliseconds("add_seconds")),
            ("project, ms", milliseconds("project_seconds")),
            ("ratio", lambda row: f"{row['project_seconds'] / row['add_seconds']:.2f}"),
            ("key server, ms", milliseconds("server_seconds")),
            ("bytes more", "extra_bytes:,"),
            ("kept", "kept_bytes:,"),
            ("error", "error:.1%"),
        ],
        report["rows"],
    )
    most = max(row["projections"] for row in report["rows"])
    yield (
        f"The key server would learn up to {most:,} linear combinations of each client's update, and the aggregator "
        "keep every upload until the challenge is drawn."
    )


def combine_ciphertexts(public: PublicKey, ciphertexts: Ciphertexts, signs: Signs) -> Ciphertexts:
    """Per row of signs, the ciphertext of Σ_b r_b·v_b per slot: one product per block, and one inverse."""
    square, n = public.modulus_squared, public.modulus
    pairs = public.parse("ciphertexts", ciphertexts)
    combined = []
    for row in signs.tolist():
        products, total = {1: gmpy2.mpz(1), -1: gmpy2.mpz(1)}, gmpy2.mpz(0)
        for sign, (x, u) in zip(row, pairs, strict=True):
            products[sign] = products[sign] * x % square
            total += sign * u
        combined.append(int(products[1] * gmpy2.invert(products[-1], square) * (1 + total % n * n) % square))
    return public.from_integers(combined)


def combine_values(values: Ints, signs: Signs, round_: Round) -> Ints:
    """The same for values: Σ_b r_b·v_b per slot, modulo a slot's width."""
    whole = np.zeros(round_.blocks * round_.block, dtype=np.int64)
    whole[: values.size] = values
    return wrap(signs @ whole.reshape(round_.blocks, round_.block), round_)


def _blinding_values(blinding: Blinding | None, signs: Signs, round_: Round) -> Ints:
    if blinding is None:
        raise AssertionError("nothing is blinded")
    return combine_values(blinding.values(round_), signs, round_)


def norm_error(values: Ints, challenges: int, round_: Round, *, rng: np.random.Generator) -> float:
    """Root mean square of the relative error of the norm from so many challenges."""
    norm, errors = float(np.linalg.norm(values)), []
    for _ in range(_DRAWS):
        signs = rng.choice(np.array([-1, 1]), size=(challenges, round_.blocks))
        found = combine_values(values, signs, round_).astype(np.float64)
        errors.append(np.sqrt((found**2).sum() / challenges) / norm - 1)
    return float(np.sqrt(np.mean(np.square(errors))))
