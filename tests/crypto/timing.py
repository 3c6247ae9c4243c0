"""Does the time of ring operations depend on secrets? `python -m tests.crypto.timing [MEASUREMENTS]` measures it.

As dudect does (Reparaz, Balasch, Verbauwhede 2017): two classes of secrets, a fixed one and random ones, in random
order; processor time of each call; Welch's t-test on all measurements and on those below each of several percentiles,
which removes what interrupts add. |t| above 10 in any of them means a leak for sure, above 5 a likely one. Both classes
rotate through equally many objects, so that caches see no difference.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from sensecrypt.crypto.ring import sampling
from sensecrypt.crypto.ring.public import RingPublicKey
from sensecrypt.crypto.ring.secret import RingSecretKey, generate_ring

PROFILE, OBJECTS = "ring-2048", 16
PERCENTILES = (50, 75, 90, 95, 99, 100)
Case = Callable[[int, int], Callable[[], object]]  # of a class and an object: what is measured


def largest_t(times: np.ndarray, classes: np.ndarray) -> float:
    """The largest |t| over all crops."""
    found = []
    for percentile in PERCENTILES:
        kept = times <= np.percentile(times, percentile)
        a, b = (times[kept & (classes == each)] for each in (0, 1))
        found.append(abs(a.mean() - b.mean()) / np.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size))
    return float(max(found))


def measure(case: Case, count: int, rng: np.random.Generator) -> tuple[float, float]:
    """The largest |t|, and the difference of the classes' medians as a share of the median."""
    calls = [[case(which, index) for index in range(OBJECTS)] for which in (0, 1)]
    classes, objects = rng.integers(0, 2, count), rng.integers(0, OBJECTS, count)
    times = np.empty(count)
    for index, (which, number) in enumerate(zip(classes.tolist(), objects.tolist(), strict=True)):
        call = calls[which][number]
        start = time.thread_time_ns()
        call()
        times[index] = time.thread_time_ns() - start
    medians = [float(np.median(times[classes == which])) for which in (0, 1)]
    return largest_t(times[count // 20 :], classes[count // 20 :]), (medians[1] - medians[0]) / float(np.median(times))


def cases(rng: np.random.Generator) -> dict[str, Case]:
    """What is measured, by name."""
    secret = generate_ring(PROFILE)
    public, slots = secret.public, secret.public.slots

    def values(which: int) -> np.ndarray:
        return rng.integers(-(2**31), 2**31, slots) if which else np.zeros(slots, dtype=np.int64)

    def encrypt_values(which: int, _: int) -> Callable[[], object]:
        chosen = values(which)
        return lambda: public.encrypt(chosen)

    def encrypt_randomness(which: int, _: int) -> Callable[[], object]:
        shape = (2, 1, 2048)
        u = rng.integers(-1, 2, (1, 2048)).astype(np.int8) if which else np.zeros((1, 2048), np.int8)
        f = rng.integers(-21, 22, shape).astype(np.int8) if which else np.zeros(shape, np.int8)
        d = np.stack([rng.integers(0, 2**bits, (1, 2048)) * which for bits in (1, 7)]).astype(np.uint8)
        zeros, out = np.zeros((1, 1, 2048), np.int64), public.empty(1)
        return lambda: public._encrypt_with(zeros, u, f, d, out)

    def decrypt_values(which: int, _: int) -> Callable[[], object]:
        row = public.encrypt(values(which))
        return lambda: secret.decrypt(row, slots)

    fixed = secret.secret_bytes()

    def decrypt_key(which: int, _: int) -> Callable[[], object]:
        if which:
            key = generate_ring(PROFILE)
        else:
            again = RingPublicKey(public.seed, public.b, PROFILE)
            key = RingSecretKey(np.frombuffer(fixed, np.int8).reshape(1, -1).copy(), again)
        row = key.public.encrypt(np.zeros(slots, dtype=np.int64))
        return lambda: key.decrypt(row, slots)

    def from_bytes(draw: Callable[[], object], needed: int) -> Case:
        def case(which: int, _: int) -> Callable[[], object]:
            drawn = rng.integers(0, 255, needed).astype(np.uint8) if which else np.full(needed, 85, np.uint8)

            def run() -> object:
                real, sampling.random_bytes = sampling.random_bytes, lambda _: drawn.copy()
                try:
                    return draw()
                finally:
                    sampling.random_bytes = real

            return run

        return case

    return {
        "ternary, by the bytes drawn": from_bytes(lambda: sampling.ternary((1, 2048)), 2048),
        "errors, by the bytes drawn": from_bytes(lambda: sampling.errors((2, 1, 2048)), 6 * 2 * 2048),
        "encrypt, by the values": encrypt_values,
        "encrypt, by u, f and d": encrypt_randomness,
        "decrypt, by the values": decrypt_values,
        "decrypt, by the key": decrypt_key,
        "itself: no difference at all": lambda _, __: lambda: public.encrypt([0]),
    }


def main() -> None:
    """A line per operation."""
    count, rng = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, np.random.default_rng(1)
    for name, case in cases(rng).items():
        t, difference = measure(case, count, rng)
        sys.stdout.write(f"{name:32} largest |t| {t:6.2f}, medians differ by {difference:+.3%}\n")


if __name__ == "__main__":
    main()
