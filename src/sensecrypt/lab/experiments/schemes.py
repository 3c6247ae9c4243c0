"""Appendix K: what do few and many values cost with Paillier and with CKKS?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.extras import require
from sensecrypt.lab.bench.measure import Times
from sensecrypt.lab.drawing import Figure, colour_of, legend_below, log_axis, number, sheet
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import distinct, where

STOCK, STOCK_3072 = "python-paillier, 2048 bits", "python-paillier, 3072 bits"
CKKS, CKKS_SINGLE = "TenSEAL CKKS, packed", "TenSEAL CKKS, one value per ciphertext"  # names in saved rows
OURS = {
    "paillier-2048-scalar": "ours: Paillier, one value per ciphertext",
    "paillier-2048": "ours: Paillier, 63 values per ciphertext",
    "ckks-8192": "ours: CKKS, 4,096 values per ciphertext",
    "ring-2048x4": "ours: ring-LWE, 8,192 values per ciphertext",
}
SCALAR, PACKED, RING = OURS["paillier-2048-scalar"], OURS["paillier-2048"], OURS["ring-2048x4"]
PAPER = {  # quantity: seconds and bytes with Paillier, seconds and bytes of all of a packed CKKS vector
    1: (0.3748, 768, 0.0073, 333_324),
    10: (3.7613, 7_680, 0.0076, 333_570),
    100: (40.7887, 76_800, 0.0120, 334_488),
    1_000: (396.1321, 767_990, 0.0079, 334_366),
    10_000: (3925.9769, 7_679_907, 0.0261, 1_002_800),
}
BANDWIDTH = 50e6  # bytes per second, the paper's fastest device

Encrypt = Callable[[int], Callable[[], int]]  # encrypts a number of values; returns a function for their length


def cells(spec: Spec) -> list[Cell]:
    """One cell per scheme; with one value per ciphertext, times above a limit are multiplied."""
    repeats, limit, most = spec["repeats"], spec["limit"], max(spec["quantities"])
    plan: list[tuple[str, Callable[[], Encrypt], int, float]] = [
        (STOCK, partial(_stock, 2048), limit, 0.022 * limit),
        (STOCK_3072, partial(_stock, 3072), limit // 10, 0.005 * limit),
        (CKKS, partial(_tenseal, 4096), most, 0.1),
        (CKKS_SINGLE, partial(_tenseal, 1), limit, 0.008 * limit),
        *((name, partial(_ours, profile), most, 7.0 if name == SCALAR else 0.2) for profile, name in OURS.items()),
    ]
    return [
        Cell(_slug(name), 2 + 1.2 * repeats * seconds, partial(_measure, spec, name, make, most))
        for name, make, most, seconds in plan
    ]


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def _measure(spec: Spec, name: str, make: Callable[[], Encrypt], most: int, _folder: Path) -> list[Row]:
    """Medians of processor time on one core; larger quantities are multiples of the largest that is measured."""
    encrypt = make()
    encrypt(1)  # builds tables
    rows: list[Row] = []
    for quantity in spec["quantities"]:
        measured = quantity <= max(each for each in spec["quantities"] if each <= most)
        if measured:
            times = Times(time.process_time)
            for _ in range(spec["repeats"]):
                length = times.of("encrypt", partial(encrypt, quantity))
            seconds, size = times.medians["encrypt"], length()
        else:
            last = rows[-1]
            seconds, size = (last[key] * quantity / last["quantity"] for key in ("seconds", "bytes"))
        own: Row = {"seconds": seconds, "bytes": int(size), "measured": measured}
        rows.append({"scheme": name, "quantity": quantity, **own})
    return rows


def _stock(bits: int) -> Encrypt:
    public, _ = import_module("phe").generate_paillier_keypair(n_length=bits)
    length = bits // 4

    def encrypt(count: int) -> Callable[[], int]:
        made = [public.encrypt(value / 7) for value in range(count)]
        return lambda: length * len(made)

    return encrypt


def _tenseal(at_once: int) -> Encrypt:
    require("Appendix K", "ckks")
    ts = import_module("tenseal")
    context = ts.context(
        ts.SCHEME_TYPE.CKKS, poly_modulus_degree=8192, coeff_mod_bit_sizes=[60, 40, 40, 60], n_threads=1
    )
    context.global_scale = 2.0**40

    def encrypt(count: int) -> Callable[[], int]:
        parts = [min(at_once, count - start) for start in range(0, count, at_once)]
        made = [ts.ckks_vector(context, [0.1] * part) for part in parts]
        return lambda: sum(len(each.serialize()) for each in made)

    return encrypt


def _ours(profile: str) -> Encrypt:
    public, _ = generate_keypair(profile)
    values = np.arange(10_000) % 16_384

    def encrypt(count: int) -> Callable[[], int]:
        made = public.encrypt(values[:count])
        return lambda: made.nbytes

    return encrypt


def draw(rows: Rows) -> Figure:
    """Time and length by the number of values, ours and the paper's."""
    figure, (left, right) = sheet("Encrypting values, one core", panels=2, size=(12, 5.2))
    names = distinct(rows, "scheme")
    for axes, key, label in ((left, "seconds", "seconds"), (right, "bytes", "bytes")):
        for place, name in enumerate(names):
            own = where(rows, scheme=name)
            axes.plot([r["quantity"] for r in own], [r[key] for r in own], "-", color=colour_of(place), label=name)
            for measured, fill in ((True, colour_of(place)), (False, "white")):
                part = where(own, measured=measured)
                x, y = [row["quantity"] for row in part], [row[key] for row in part]
                axes.plot(x, y, "o", color=colour_of(place), markerfacecolor=fill, markersize=5)
        quantities = sorted({row["quantity"] for row in rows if row["quantity"] in PAPER})
        for scheme, place, marker in (("Paillier", 0, "x"), ("CKKS, packed", 2, "+")):
            values = [PAPER[each][place + (key == "bytes")] for each in quantities]
            axes.plot(quantities, values, marker, color="black", markersize=8, label=f"the paper: {scheme}")
        log_axis(axes, "x", [row["quantity"] for row in rows])
        both = [row[key] for row in rows] + [PAPER[q][p + (key == "bytes")] for q in quantities for p in (0, 2)]
        log_axis(axes, "y", both)
        axes.grid(visible=True)
        axes.set(xlabel="values (hollow: multiplied)", ylabel=label)
    legend_below(figure, left, fontsize=8, columns=3)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """Sizes and times of one value and of the largest number."""
    most = max(row["quantity"] for row in rows)
    cost = {(row["scheme"], row["quantity"]): row for row in rows}
    one = {name: cost[name, 1] for name in distinct(rows, "scheme")}
    many = {name: cost[name, most] for name in one}
    larger = one[CKKS]["bytes"] / one[STOCK]["bytes"]
    grown = {name: many[name]["seconds"] / one[name]["seconds"] for name in (STOCK, CKKS)}
    sent = {name: each["seconds"] + each["bytes"] / BANDWIDTH for name, each in many.items()}
    fewer = many[CKKS_SINGLE]["bytes"] / many[STOCK]["bytes"]
    less_time, less_bytes = (many[STOCK][key] / many[PACKED][key] for key in ("seconds", "bytes"))
    smaller = many[CKKS_SINGLE]["bytes"] / many[PACKED]["bytes"]
    return [
        Verdict(
            "one value: a CKKS ciphertext (333,324 bytes) is over 434 times as long as Paillier's (768)",
            f"{one[CKKS]['bytes']:,} and {one[STOCK]['bytes']:,} bytes: {larger:.0f} times; 768 bytes are a key of "
            f"3072 bits ({one[STOCK_3072]['bytes']} here, {one[CKKS]['bytes'] / one[STOCK_3072]['bytes']:.0f} times), "
            "not the 2048 of the paper's settings",
            graded(larger > 434, larger > 100),
        ),
        Verdict(
            "encrypting one value: Paillier 0.3748 s, CKKS 0.0073 s",
            f"python-paillier {one[STOCK]['seconds']:.4f} s (3072 bits: {one[STOCK_3072]['seconds']:.4f}), TenSEAL "
            f"{one[CKKS]['seconds']:.4f} s; ours: Paillier {one[SCALAR]['seconds']:.4f} s",
            graded(
                _near(one[STOCK]["seconds"] / one[CKKS]["seconds"], 0.3748 / 0.0073),
                one[CKKS]["seconds"] < one[STOCK]["seconds"],
            ),
        ),
        Verdict(
            "Paillier's time grows with the number of values (3,926 s for 10,000), CKKS's hardly (0.0261 s)",
            f"{most:,} values against one: python-paillier {grown[STOCK]:,.0f} times ({many[STOCK]['seconds']:,.0f} s"
            f"{'' if many[STOCK]['measured'] else ', multiplied'}), TenSEAL {grown[CKKS]:.1f} times "
            f"({many[CKKS]['seconds']:.4f} s)",
            graded(grown[STOCK] > 0.5 * most and grown[CKKS] < 20),
        ),
        Verdict(
            "if each parameter is chosen separately, Paillier is far more practical than CKKS",
            f"{most:,} values, one per ciphertext: CKKS takes {fewer:.0f} times the bytes; encrypting and sending at "
            f"50 MB/s takes {number(sent[STOCK])} s with python-paillier, {number(sent[CKKS_SINGLE])} s with CKKS, "
            f"{number(sent[SCALAR])} s with our Paillier (by the paper's own figures 3,926 and 140 s)",
            graded(fewer > 100 and sent[STOCK] < sent[CKKS_SINGLE], fewer > 100),
        ),
        Verdict(
            "clients' own masks rule out packing, as positions would not align",
            f"ours: a shared secret order, of which each client encrypts a part from the start; {most:,} values take "
            f"{many[PACKED]['seconds']:.3f} s and {many[PACKED]['bytes']:,} bytes: {less_time:,.0f} times less time "
            f"and {less_bytes:.0f} times fewer bytes than python-paillier, {smaller:,.0f} times fewer than CKKS "
            f"unpacked",
            answer(less_time > 10 and less_bytes > 10),
        ),
        *([_third_row(one[RING], many)] if RING in one else []),
    ]


def _third_row(one: Mapping[str, Any], many: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """Whether exact ring-LWE is better than both schemes of the table."""
    ring, packed = many[RING], many[PACKED]
    times = {name: many[name]["seconds"] / ring["seconds"] for name in (STOCK, PACKED, CKKS)}
    return Verdict(
        "(ours) a third row: exact ring-LWE against both",
        f"{ring['quantity']:,} values: {1e3 * ring['seconds']:.2f} ms, {times[STOCK]:,.0f} times less than "
        "python-paillier, "
        f"{times[PACKED]:,.0f} times less than our packed Paillier, {times[CKKS]:.0f} times less than TenSEAL; "
        f"{ring['bytes']:,} bytes, packed Paillier {packed['bytes']:,}, TenSEAL {many[CKKS]['bytes']:,}; one value "
        f"{one['bytes']:,} bytes",
        answer(min(times.values()) > 1 and ring["bytes"] < many[CKKS]["bytes"]),
    )


def _near(ours: float, paper: float) -> bool:
    return paper / 2 < ours < paper * 2


ITEM = Item("schemes", "Paillier against CKKS", "Appendix K", cells, draw, judge)
