"""How `paillier.json` was made: `python tests/vectors/make_paillier_vectors.py > tests/vectors/paillier.json`.

Independent of the package: Python's integers and `pow` alone. Primes come from a fixed seed, so these keys are public.
"""

from __future__ import annotations

import json
import random
import sys


def is_prime(number: int, rng: random.Random) -> bool:
    if any(number % small == 0 for small in (2, 3, 5, 7, 11, 13)):
        return False
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(40):
        x = pow(rng.randrange(2, number - 1), odd, number)
        if x in (1, number - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % number
            if x == number - 1:
                break
        else:
            return False
    return True


def prime(bits: int, rng: random.Random) -> int:
    while True:
        candidate = rng.getrandbits(bits) | (3 << (bits - 2)) | 3
        if is_prime(candidate, rng):
            return candidate


def vector(bits: int, slot_bits: int, values: list[int], exponent_bits: int, rng: random.Random) -> dict[str, object]:
    p, q = prime(bits // 2, rng), prime(bits // 2, rng)
    n = p * q
    x, a = rng.randrange(2, n), rng.getrandbits(exponent_bits)
    h = -x * x % n
    plaintext = sum(value << (slot_bits * slot) for slot, value in enumerate(values)) % n
    ciphertext = (1 + plaintext * n) * pow(pow(h, n, n * n), a, n * n) % (n * n)
    numbers = {"p": p, "q": q, "h": h, "exponent": a, "plaintext": plaintext, "ciphertext": ciphertext}
    return {"bits": bits, "values": values} | {name: f"{number:x}" for name, number in numbers.items()}


def main() -> None:
    rng = random.Random(20260101)  # noqa: S311  (published test keys)
    edge = 2**31
    cases = {
        "paillier-2048": [0, 1, -1, edge - 1, -edge, 123456789, -987654321] * 9,
        "paillier-2048-slot16": [-(2**15), 2**15 - 1, -1] * 42 + [7],
        "paillier-2048-short": [-1] * 63,
        "paillier-2048-scalar": [-(2**63)],
    }
    exponents = {"paillier-2048-short": 448}
    widths = {"paillier-2048-slot16": 16, "paillier-2048-scalar": 64}
    vectors = [
        {"profile": name} | vector(2048, widths.get(name, 32), values, exponents.get(name, 1024), rng)
        for name, values in cases.items()
    ]
    json.dump(vectors, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
