"""`sensecrypt bench crypto`: our schemes and the public ones, one core, one run.

Every method encrypts, adds two sets of ciphertexts and decrypts, with as many values per call as suits it. A repeat
runs all methods one after the other, so that a slow phase of the machine affects all of them; medians are compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sensecrypt import checks
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.paillier.randomizers import RandomizerPool
from sensecrypt.extras import require
from sensecrypt.files import write_whole
from sensecrypt.lab.bench.measure import Times
from sensecrypt.lab.bench.table import Column, Report, Row, Shown, described
from sensecrypt.lab.drawing import colour_of, sheet, style, to_png
from sensecrypt.profiles import PROFILES

REFERENCE = "python-paillier"
OPERATIONS = ("encrypt", "add", "decrypt")
_VARIED: Literal["paillier-2048"] = "paillier-2048"  # the profile whose variants also have rows
VALUES = 2**17  # per call of our lattice schemes: about the parameters of AlexNet
Step = Callable[[], object]


@dataclass(frozen=True)
class Method:
    """One way to encrypt, with its three operations ready to be timed.

    Attributes:
        name: in the table.
        values: numbers per call of each operation.
        ciphertexts: that hold these values.
        bytes_per_value: on the wire.
        steps: by name of operation; a variant leaves out what it does not change.
        before: called before each step, untimed.
    """

    name: str
    values: int
    ciphertexts: int
    bytes_per_value: float
    steps: dict[str, Step]
    before: Step = lambda: None


def run(*, repeats: int, rows: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Time all methods.

    Args:
        repeats: per median.
        rows: ciphertexts per call of our Paillier; lattice schemes take `VALUES` values.
        seed: of the plaintexts.
        on_step: called with a description of each step.
    """
    checks.whole("rows", rows, low=1)
    rng = np.random.default_rng(seed)
    on_step("generating keys and tables")
    methods = [*_peers(rng), *_ours(rng, rows)]
    times = {method.name: Times() for method in methods}
    for repeat in range(repeats):
        for method in methods:
            on_step(f"repeat {repeat + 1} of {repeats}: {method.name}")
            for operation, step in method.steps.items():
                method.before()
                if operation == "add":
                    step()  # quick: caches must be warm for all methods
                times[method.name].of(operation, step)
    us = {
        each.name: {step: 1e6 * seconds / each.values for step, seconds in times[each.name].medians.items()}
        for each in methods
    }
    return {"repeats": repeats, "cores": 1, "rows": [_row(each, us[each.name], us[REFERENCE]) for each in methods]}


def shown(report: Report) -> Iterator[Shown]:
    """The table."""
    columns: list[Column] = [("method", "name"), ("bytes", "bytes_per_value:.2f")]
    for title, key in (("encrypt 1 ct", "encrypt_{}_per_ciphertext"), *((each, f"{each}_{{}}") for each in OPERATIONS)):
        columns += [
            (title, partial(_digits, key.format("us"), 3)),
            ("ratio", partial(_digits, key.format("ratio"), 1)),
        ]
    yield described(
        f"µs per value on one core; ratio: how many times as long {REFERENCE} takes (medians of {report['repeats']})",
        columns,
        report["rows"],
    )


def _digits(key: str, digits: int, row: Row) -> str:
    """A figure, from 10 on without decimals."""
    value = row[key]
    return "" if value is None else f"{value:,.{digits if value < 10 else 0}f}"


def plot(report: Report, path: Path) -> None:
    """Bars of the time per value, a panel per operation, logarithmic."""
    with style("--plot"):
        size = (14, 0.4 * len(report["rows"]) + 1.6)
        figure, panels = sheet(f"One core, medians of {report['repeats']}", panels=3, size=size, share=True)
        for axes, operation in zip(panels, OPERATIONS, strict=True):
            timed = [(row["name"], row[f"{operation}_us"]) for row in reversed(report["rows"])]
            axes.barh([name for name, _ in timed], [time or 0 for _, time in timed], color=colour_of(0))
            axes.set(xscale="log", title=operation, xlabel="µs per value")
        image = to_png(figure)
    write_whole(path, image)


def _row(method: Method, us: dict[str, float], reference: dict[str, float]) -> Row:
    """Microseconds per value, and how many times as long python-paillier takes; None for what was not timed."""
    packed = method.values / method.ciphertexts
    row: Row = {"name": method.name, "values_per_ciphertext": packed, "bytes_per_value": method.bytes_per_value}
    for operation in OPERATIONS:
        timed = us.get(operation)
        row |= {f"{operation}_us": timed, f"{operation}_ratio": timed and reference[operation] / timed}
    row["encrypt_us_per_ciphertext"] = row["encrypt_us"] and row["encrypt_us"] * packed
    row["encrypt_ratio_per_ciphertext"] = row["encrypt_ratio"] and row["encrypt_ratio"] / packed
    return row


def _peer(module: str) -> Any:
    require(f"comparing with {module}", "ckks" if module == "tenseal" else "lab")
    return import_module(module)


def _peers(rng: np.random.Generator) -> list[Method]:
    return [python_paillier(rng), _pypaillier(rng), _tenseal(rng)]


def python_paillier(rng: np.random.Generator) -> Method:
    """The stock implementation, one value per ciphertext."""
    public, secret = _peer("phe").generate_paillier_keypair(n_length=2048)
    values = rng.integers(-(2**30), 2**30, 20).tolist()
    encrypted = [public.encrypt(value) for value in values]
    steps: dict[str, Step] = {
        "encrypt": lambda: [public.encrypt(value) for value in values],
        "add": lambda: [a + b for a, b in zip(encrypted, encrypted, strict=True)],
        "decrypt": lambda: [secret.decrypt(value) for value in encrypted],
    }
    return Method(REFERENCE, len(values), len(values), 512.0, steps)


def python_paillier_weighted(rng: np.random.Generator) -> Method:
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
    return Method(REFERENCE, len(values), len(values), 512.0, steps)


def _pypaillier(rng: np.random.Generator) -> Method:
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
    return Method("pypaillier (Rust)", len(values), len(values), float(len(blobs[0])), steps)


def _tenseal(rng: np.random.Generator) -> Method:
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
    return Method("TenSEAL CKKS 8192, 60-40-40-60", 4096, 1, len(vectors[0].serialize()) / 4096, steps)


def _ours(rng: np.random.Generator, rows: int) -> list[Method]:
    methods = []
    for profile in PROFILES.values():
        if profile.security_bits == 0:
            continue
        public, secret = generate_keypair(profile)
        count = rows if profile.slots < 1000 else max(1, VALUES // profile.slots)
        values = rng.integers(-(2**14), 2**14, profile.slots * count)
        encrypted = public.encrypt(values)  # also builds the table
        running = public.accumulator(count)
        steps: dict[str, Step] = {
            "encrypt": partial(public.encrypt, values),
            "add": partial(running.add, encrypted),
            "decrypt": partial(secret.decrypt, encrypted, values.size),
        }
        methods.append(Method(f"ours: {profile.name}", values.size, count, profile.bytes_per_value, steps))
        if profile.name == _VARIED:
            methods += _variants(rng, rows)
    return methods


def _variants(rng: np.random.Generator, rows: int) -> list[Method]:
    """The packed Paillier profile used in other ways."""
    public, secret = generate_keypair(_VARIED)
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
        Method(f"  {name}", values.size, rows, size, steps, before=partial(_top_up, pool, rows))
        for name, steps in variants.items()
    ]


def _top_up(pool: RandomizerPool, count: int) -> None:
    if len(pool) < count:
        pool.fill(count - len(pool))
