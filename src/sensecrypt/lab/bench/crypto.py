"""`sensecrypt bench crypto`: our schemes and the public ones, one core, one run.

Every contender does the same three things with as many values as it likes at a time: encrypt, add two sets of
ciphertexts, decrypt. A repeat takes all contenders in turn, so that a slow spell of the machine hits all of them, and
medians are compared.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sensecrypt import checks
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.paillier.randomizers import RandomizerPool
from sensecrypt.errors import MissingExtra
from sensecrypt.profiles import DEFAULT_PROFILE, PROFILES

REFERENCE = "python-paillier"
OPERATIONS = ("encrypt", "add", "decrypt")
VALUES = 2**17  # that a call of a lattice scheme of ours handles: about the parameters of AlexNet
Step = Callable[[], object]


@dataclass(frozen=True)
class Contender:
    """One way to encrypt, with its three operations ready to be timed.

    Attributes:
        name: who.
        values: numbers handled by one call of each operation.
        ciphertexts: how many ciphertexts these are.
        bytes_per_value: on the wire.
        steps: by name of operation; what a variant does not change it leaves out.
        before: run before each step, untimed.
    """

    name: str
    values: int
    ciphertexts: int
    bytes_per_value: float
    steps: dict[str, Step]
    before: Step = lambda: None


@dataclass(frozen=True)
class Row:
    """One contender's medians, in microseconds a value, and how many times slower python-paillier is."""

    name: str
    values_per_ciphertext: float
    bytes_per_value: float
    encrypt_us_per_ciphertext: float | None
    encrypt_us: float | None
    add_us: float | None
    decrypt_us: float | None
    encrypt_ratio_per_ciphertext: float | None
    encrypt_ratio: float | None
    add_ratio: float | None
    decrypt_ratio: float | None


@dataclass(frozen=True)
class Report:
    """All rows, and how they were made."""

    repeats: int
    cores: int
    rows: list[Row]


def run(*, repeats: int, rows: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Time everybody.

    Args:
        repeats: medians of.
        rows: ciphertexts a call of our Paillier handles; lattice schemes take `VALUES` values.
        seed: of the plaintexts.
        on_step: told what is going on.
    """
    checks.whole("rows", rows, low=1)
    rng = np.random.default_rng(seed)
    on_step("making keys and tables")
    contenders = [*_peers(rng), *_ours(rng, rows)]
    times: dict[tuple[str, str], list[float]] = {}
    for repeat in range(repeats):
        for contender in contenders:
            on_step(f"repeat {repeat + 1} of {repeats}: {contender.name}")
            for operation, step in contender.steps.items():
                contender.before()
                if operation == "add":
                    step()  # quick: caches must be warm for everybody
                times.setdefault((contender.name, operation), []).append(_seconds(step))
    medians = {key: 1e6 * median(values) for key, values in times.items()}
    reference = {operation: medians[REFERENCE, operation] / contenders[0].values for operation in OPERATIONS}
    return Report(repeats, 1, [_row(contender, medians, reference) for contender in contenders])


def plot(report: Report, path: Path) -> None:
    """Bars of the time a value, one panel an operation, logarithmic."""
    try:
        matplotlib = import_module("matplotlib")
        matplotlib.use("Agg")
        pyplot = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise MissingExtra("--plot", "lab") from error
    figure, panels = pyplot.subplots(1, 3, figsize=(14, 0.4 * len(report.rows) + 1.6), sharey=True)
    for panel, operation in zip(panels, OPERATIONS, strict=True):
        timed = [(row.name, getattr(row, f"{operation}_us")) for row in reversed(report.rows)]
        panel.barh([name for name, _ in timed], [time or 0 for _, time in timed])
        panel.set(xscale="log", title=operation, xlabel="µs a value")
    figure.suptitle(f"One core, medians of {report.repeats}")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _seconds(step: Step) -> float:
    gc.disable()  # a collection in one contender's turn would be charged to it alone
    try:
        start = time.perf_counter()
        step()
        return time.perf_counter() - start
    finally:
        gc.enable()


def _row(contender: Contender, medians: dict[tuple[str, str], float], reference: dict[str, float]) -> Row:
    us = {
        operation: medians[contender.name, operation] / contender.values if operation in contender.steps else None
        for operation in OPERATIONS
    }
    ratio = {operation: reference[operation] / each if each else None for operation, each in us.items()}
    packed = contender.values / contender.ciphertexts
    return Row(
        name=contender.name,
        values_per_ciphertext=packed,
        bytes_per_value=contender.bytes_per_value,
        encrypt_us_per_ciphertext=us["encrypt"] and us["encrypt"] * packed,
        encrypt_us=us["encrypt"],
        add_us=us["add"],
        decrypt_us=us["decrypt"],
        encrypt_ratio_per_ciphertext=ratio["encrypt"] and ratio["encrypt"] / packed,
        encrypt_ratio=ratio["encrypt"],
        add_ratio=ratio["add"],
        decrypt_ratio=ratio["decrypt"],
    )


def _peer(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(f"comparing with {module}", "lab") from error


def _peers(rng: np.random.Generator) -> list[Contender]:
    return [python_paillier(rng), _pypaillier(rng), _tenseal(rng)]


def python_paillier(rng: np.random.Generator) -> Contender:
    """The stock implementation, one value a ciphertext."""
    public, secret = _peer("phe").generate_paillier_keypair(n_length=2048)
    values = rng.integers(-(2**30), 2**30, 20).tolist()
    encrypted = [public.encrypt(value) for value in values]
    steps: dict[str, Step] = {
        "encrypt": lambda: [public.encrypt(value) for value in values],
        "add": lambda: [a + b for a, b in zip(encrypted, encrypted, strict=True)],
        "decrypt": lambda: [secret.decrypt(value) for value in encrypted],
    }
    return Contender(REFERENCE, len(values), len(values), 512.0, steps)


def python_paillier_weighted(rng: np.random.Generator) -> Contender:
    """FedAvg with the stock implementation: a ciphertext times n_i / N, and a ciphertext plus a known number."""
    public, _ = _peer("phe").generate_paillier_keypair(n_length=2048)
    values = rng.normal(0, 0.05, 20).tolist()
    samples = rng.integers(1000, 4000, 20)
    shares = (samples / samples.sum()).tolist()
    encrypted = [public.encrypt(value) for value in values]
    steps: dict[str, Step] = {
        "multiply": lambda: [each * share for each, share in zip(encrypted, shares, strict=True)],
        "add_plain": lambda: [each + value for each, value in zip(encrypted, values, strict=True)],
    }
    return Contender(REFERENCE, len(values), len(values), 512.0, steps)


def _pypaillier(rng: np.random.Generator) -> Contender:
    os.environ["RAYON_NUM_THREADS"] = "1"  # before its first use: it would take all cores
    peer = _peer("paillier")
    public, secret = peer.generate_keypair(2048)
    values = rng.integers(-(2**30), 2**30, 20).tolist()
    blobs = [bytes(blob) for blob in peer.encrypt_integers(public, values)]
    steps: dict[str, Step] = {
        "encrypt": lambda: peer.encrypt_integers(public, values),
        "add": lambda: peer.add_many(public, blobs),
        "decrypt": lambda: peer.decrypt_exact_many(secret, blobs),
    }
    return Contender("pypaillier (Rust)", len(values), len(values), float(len(blobs[0])), steps)


def _tenseal(rng: np.random.Generator) -> Contender:
    ts = _peer("tenseal")
    context = ts.context(
        ts.SCHEME_TYPE.CKKS, poly_modulus_degree=8192, coeff_mod_bit_sizes=[60, 40, 40, 60], n_threads=1
    )
    context.global_scale = 2.0**40
    values = rng.normal(size=4096).tolist()
    vectors = [ts.ckks_vector(context, values) for _ in range(2)]
    steps: dict[str, Step] = {
        "encrypt": lambda: ts.ckks_vector(context, values),
        "add": lambda: vectors[0] + vectors[1],
        "decrypt": lambda: vectors[0].decrypt(),
    }
    return Contender("TenSEAL CKKS 8192, 60-40-40-60", 4096, 1, len(vectors[0].serialize()) / 4096, steps)


def _ours(rng: np.random.Generator, rows: int) -> list[Contender]:
    contenders = []
    for profile in PROFILES.values():
        if profile.security_bits == 0:
            continue
        public, secret = generate_keypair(profile)
        count = rows if profile.slots < 1000 else max(1, VALUES // profile.slots)
        values = rng.integers(-(2**14), 2**14, profile.slots * count)
        encrypted = public.encrypt(values)  # builds the table, too
        running = public.accumulator(count)
        steps: dict[str, Step] = {
            "encrypt": partial(public.encrypt, values),
            "add": partial(running.add, encrypted),
            "decrypt": partial(secret.decrypt, encrypted, values.size),
        }
        contenders.append(Contender(f"ours: {profile.name}", values.size, count, profile.bytes_per_value, steps))
        if profile.name == DEFAULT_PROFILE:
            contenders += _variants(rng, rows)
    return contenders


def _variants(rng: np.random.Generator, rows: int) -> list[Contender]:
    """The default profile used in other ways."""
    public, secret = generate_keypair()
    values = rng.integers(-(2**14), 2**14, public.slots * rows)
    encrypted = secret.encrypt(values)
    public.prepare()
    pool = RandomizerPool(public, secret)
    variants: dict[str, dict[str, Step]] = {
        "with the secret key": {"encrypt": partial(secret.encrypt, values)},
        "from a filled pool": {"encrypt": partial(public.encrypt, values, pool=pool)},
        "adding two arrays, not a running sum": {"add": partial(public.add, encrypted, encrypted)},
        "constant-time decryption": {"decrypt": partial(secret.decrypt, encrypted, values.size, constant_time=True)},
        "2 workers": {
            "encrypt": partial(public.encrypt, values, workers=2),
            "decrypt": partial(secret.decrypt, encrypted, values.size, workers=2),
        },
    }
    size = public.profile.bytes_per_value
    return [
        Contender(f"  {name}", values.size, rows, size, steps, before=partial(_top_up, pool, rows))
        for name, steps in variants.items()
    ]


def _top_up(pool: RandomizerPool, count: int) -> None:
    if len(pool) < count:
        pool.fill(count - len(pool))
