"""How `ring.json` was made: `python -m tests.vectors.make_ring_vectors > tests/vectors/ring.json`.

Independent of the package: Python's integers alone. Keys and randomness come from fixed seeds: these keys are public.
The tiny vector is written out; of the others, the randomness is what `draw` gives, and ciphertexts stand as digests.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys

from tests.crypto import plainring

EDGE = 2**31


def draw(seed: int, n: int, k: int) -> dict[str, list[list[int]]]:
    """Secret key, its errors, values at the ends of the range and elsewhere, u, errors, rounding; with extremes."""
    rng = random.Random(seed)  # noqa: S311  (published test keys)
    s, u = ([[rng.randrange(-1, 2) for _ in range(n)] for _ in range(rows)] for rows in (k, 1))
    e = [[rng.randrange(-5, 6) for _ in range(n)] for _ in range(k)]
    f = [[rng.randrange(-21, 22) for _ in range(n)] for _ in range(k + 1)]
    values = [[rng.choice([-EDGE, EDGE - 1, 0, rng.randrange(-EDGE, EDGE)]) for _ in range(n)] for _ in range(k)]
    dropped = [plainring.Q_BITS - plainring.FIRST_BITS] + [plainring.Q_BITS - plainring.VALUE_BITS] * k
    d = [[rng.choice([0, 2**bits - 1, rng.randrange(2**bits)]) for _ in range(n)] for bits in dropped]
    return {"s": s, "e": e, "values": values, "u": u, "f": f, "d": d}


def vector(profile: str, seed: int, n: int, k: int) -> dict[str, object]:
    """One key and one ciphertext."""
    drawn, public_seed = draw(seed, n, k), hashlib.sha256(str(seed).encode()).digest()
    b = plainring.public_b(public_seed, drawn["s"], drawn["e"])
    ciphertext = plainring.encrypt(profile, public_seed, b, drawn["values"], drawn["u"][0], drawn["f"], drawn["d"])
    facts: dict[str, object] = {"profile": profile, "seed": seed, "n": n, "k": k, "public_seed": public_seed.hex()}
    if n <= 16:
        written = {"b": b"".join(map(plainring.to_bytes, b)).hex(), "ciphertext": ciphertext.hex()}
        return facts | drawn | written
    return facts | {"ciphertext_sha256": hashlib.sha256(ciphertext).hexdigest()}


def main() -> None:
    cases = [("ring-tiny", 1, 16, 2), ("ring-2048", 2, 2048, 1), ("ring-2048x4", 3, 2048, 4)]
    json.dump([vector(*case) for case in cases], sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
