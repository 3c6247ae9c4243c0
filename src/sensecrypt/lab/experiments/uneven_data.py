"""Attacks under statistical heterogeneity: SenseCrypt and MaskCrypt on clients with few classes.

`uneven_rounds` measures. A reading in the settings, such as `drawn-200`, is the content of a batch and the number of
local steps per round.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from sensecrypt import checks
from sensecrypt.data import load_dataset
from sensecrypt.lab.drawing import Figure, sheet
from sensecrypt.lab.experiments.charts import ranges
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import distinct, mean, of_each, span, where
from sensecrypt.lab.experiments.uneven_rounds import MASK, NOTHING, OURS, SENSE, rounds

PAPERS = "zero-fill"  # the attacker of the paper
STRONG = ("prototype", "mask-only")
MATCHING = "value-matching"  # attacks a secret order
SMALL, LARGE = "LeNet-5, MNIST", "ResNet-50, CIFAR-100"
CLIENTS = 10  # as in the paper; with fewer, its statements get no verdict
RISES = 0.15  # the least rise that is significant
STATIC, NEARLY_STATIC = 0.1, 0.2  # spread over rounds
HIGHER = 0.1  # above the other rounds, the least that is "exceptionally high"
NOTHING_LEARNT = 0.05
_SETTINGS = {SMALL: ("lenet5", "mnist"), LARGE: ("resnet50", "cifar-100")}


def cells(spec: Spec) -> list[Cell]:
    """LeNet-5 by reading and seed, the first seed with stronger attackers; then ResNet-50."""
    found = []
    for reading in spec["readings"]:
        steps = _read(reading)[1]
        for seed in range(spec["seeds"]):
            seconds = 3.0 + 0.35 * steps + (0 if seed else 32.0 * spec["strong_clients"])
            found.append(Cell(f"lenet5-{reading}-{seed}", seconds, partial(_measure, spec, SMALL, reading, seed)))
    if spec["large_clients"]:
        seconds = 130.0 * spec["large_clients"]
        found.append(Cell("resnet50", seconds, partial(_measure, spec, LARGE, spec["large_reading"], 0)))
    return found


def _measure(spec: Spec, network: str, reading: str, seed: int, _folder: Path) -> list[Row]:
    torch.set_num_threads(1)
    model, dataset = _SETTINGS[network]
    kind, steps = _read(reading)
    before = "large_" if network == LARGE else ""
    strong = 0 if seed or network == LARGE else spec["strong_clients"]
    own = {key: spec[f"{before}{key}"] for key in ("clients", "samples", "share", "learning_rate", "attacks")}
    attack = partial(rounds, model, load_dataset(dataset), kinds=spec["distributions"], reading=kind, steps=steps)
    found = attack(seed=spec["first_seed"] + seed, strong=(*STRONG, MATCHING), strong_clients=strong, **own)
    return [{"network": network, "reading": reading, **row} for row in found]


def _read(reading: str) -> tuple[str, int]:
    """`drawn-200` as `drawn` and 200."""
    kind, _, steps = reading.partition("-")
    checks.choice("readings", kind, ("whole", "drawn"))
    return kind, checks.whole("readings", int(steps), low=1, high=1 if kind == "whole" else 100_000)


def draw(rows: Rows) -> Figure:
    """Least, mean and largest over clients, as in the paper; below, the stronger attackers."""
    cases = _cases(rows)
    strong = [case for case in cases if any(row["adversary"] in STRONG for row in _of(rows, case))][:1]
    lines, title = (
        len(cases) + len(strong),
        "Attacks under statistical heterogeneity: least, mean and largest over clients",
    )
    figure, panels = sheet(title, panels=2 * lines, columns=2, size=(12, 3.6 * lines))
    wanted = {"nothing encrypted": (NOTHING, PAPERS), MASK: (MASK, PAPERS), SENSE: (SENSE, PAPERS)}
    wanted["guessing"] = (NOTHING, "prior")
    stronger = {f"{method}: {name}": (method, name) for method in (MASK, SENSE) for name in STRONG}
    stronger |= {f"{SENSE}: sensitivity": (SENSE, "sensitivity"), f"{OURS}: {MATCHING}": (OURS, MATCHING)}
    for place, case in enumerate([*cases, *strong]):
        shown = wanted if place < len(cases) else stronger
        own = _of(rows, case)
        kinds = _kinds(own)
        network, _, reading = _name(case).rpartition("; ")
        what = "the paper's attacker" if place < len(cases) else "stronger attackers"
        for axes, key, label in zip(panels[2 * place :], ("leacc", "lnacc"), ("LeAcc", "LnAcc"), strict=False):
            series = {
                name: [span(list(_values(own, kind, *who, key).values())) for kind in kinds]
                for name, who in shown.items()
                if _values(own, kinds[0], *who, key)
            }
            ranges(axes, [_called(kind) for kind in kinds], series, ylabel=label)
            axes.set(ylim=(0, 1.5), yticks=np.linspace(0, 1, 6))
            axes.set_title(f"{network}: {what}\n{reading}", fontsize=9)
            axes.legend(fontsize=7, ncols=2, loc="upper left")
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The paper's statements about its attacker, then the findings of stronger ones."""
    return [
        verdict
        for case in _cases(rows)
        for judged in (_papers, _against_stronger)
        for verdict in judged(_of(rows, case), _name(case))
    ]


def _papers(rows: Rows, name: str) -> Iterator[Verdict]:
    kinds, clients = _kinds(rows), len(distinct(rows, "client"))
    few = clients < CLIENTS
    before = f"{clients} clients, not {CLIENTS}: " if few else ""
    beside = (
        f"guessing {_along(rows, NOTHING, 'prior', 'lnacc')}, "
        f"nothing encrypted {_along(rows, NOTHING, PAPERS, 'lnacc')}"
    )
    for key, label, skipped in (("lnacc", "LnAcc", 0), ("leacc", "LeAcc", 1)):
        mask, sense = (_course(rows, who, PAPERS, key)[skipped:] for who in (MASK, SENSE))
        rise, spread = mask[-1] - mask[0], max(sense) - min(sense)
        which = " (from round 2 on)" if skipped else ""
        note = f"guessing {_along(rows, NOTHING, 'prior', 'leacc')}" if skipped else beside
        yield Verdict(
            f"{name}: {label} of MaskCrypt rises significantly with the Non-IID degree{which}",
            f"{before}{_along(rows, MASK, PAPERS, key)} in rounds 1 to {len(kinds)}, a rise of {rise:.2f} "
            f"(significant: at least {RISES:.2f}); {note}",
            graded(rise >= RISES, unsure=few),
        )
        yield Verdict(
            f"{name}: {label} of SenseCrypt remains almost static{which}",
            f"{before}{_along(rows, SENSE, PAPERS, key)} in rounds 1 to {len(kinds)}, a spread of {spread:.2f} where "
            f"MaskCrypt rises by {rise:.2f} (static: at most {STATIC:.2f} while MaskCrypt rises by "
            f"{RISES:.2f}; in shape: at most {NEARLY_STATIC:.2f} and half of MaskCrypt's rise, or static where "
            "MaskCrypt does not rise, either)",
            graded(
                spread <= STATIC and rise >= RISES,
                spread <= STATIC or spread <= min(NEARLY_STATIC, rise / 2),
                unsure=few,
            ),
        )
    first = {who: _course(rows, who, PAPERS, "leacc") for who in (MASK, SENSE)}
    yield Verdict(
        f"{name}: LeAcc is exceptionally high in round 1, as iLRG infers by default that all labels exist",
        before
        + "; ".join(f"{who} {of_each(values)}" for who, values in first.items())
        + f" (exceptionally: by at least {HIGHER:.2f}); guessing that all exist "
        f"{_course(rows, NOTHING, 'prior', 'leacc')[0]:.2f} in round 1",
        graded(all(values[0] - max(values[1:]) >= HIGHER for values in first.values()), unsure=few),
    )


def _against_stronger(rows: Rows, name: str) -> Iterator[Verdict]:
    """The gain of the best attacker over guessing, on the clients that it attacked."""
    kinds = _kinds(rows)
    names = [each for each in distinct(rows, "adversary") if each not in ("prior", PAPERS)]
    for method in (SENSE, OURS):
        seen = [each for each in names if _values(rows, kinds[0], method, each, "lnacc")]
        if not seen:
            continue
        gain = max(_gain(rows, kind, method, each) for kind in kinds for each in seen)
        words = "; ".join(f"{each} {_along(rows, method, each, 'lnacc')}" for each in seen)
        others = [each for each in seen if _values(rows, kinds[0], MASK, each, "lnacc")]
        beside = "; ".join(f"{each} {_along(rows, MASK, each, 'lnacc')}" for each in others)
        mask = f". MaskCrypt: {beside}" if others else ""
        yield Verdict(
            f"(ours) {name}: does {method} also withstand stronger attackers?",
            f"LnAcc in rounds 1 to {len(kinds)}: {words}; at best {gain:+.2f} against guessing (withstood: at most "
            f"{NOTHING_LEARNT:+.2f}){mask}",
            answer(gain <= NOTHING_LEARNT),
        )


def _gain(rows: Rows, kind: str, method: str, adversary: str) -> float:
    found = _values(rows, kind, method, adversary, "lnacc")
    guessed = _values(rows, kind, NOTHING, "prior", "lnacc")
    return float(np.mean([value - guessed[client] for client, value in found.items()]))


def _cases(rows: Rows) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["network"], row["reading"]) for row in rows))


def _of(rows: Rows, case: tuple[str, str]) -> Rows:
    return where(rows, network=case[0], reading=case[1])


def _name(case: tuple[str, str]) -> str:
    kind, steps = _read(case[1])
    batch = "the batch is all of a client's data" if kind == "whole" else "batches of a client's part of the data set"
    return f"{case[0]}; {batch}, {steps} step{'s' * (steps > 1)} per round"


def _kinds(rows: Rows) -> list[str]:
    return distinct(rows, "classes")


def _called(kind: str) -> str:
    return {"iid": "IID", "1": "1 class"}.get(kind, f"{kind} classes")


def _values(rows: Rows, kind: str, method: str, adversary: str, key: str) -> dict[tuple[int, int], float]:
    """The values by seed and client."""
    own = where(rows, classes=kind, method=method, adversary=adversary)
    return {(row["seed"], row["client"]): row[key] for row in own}


def _course(rows: Rows, method: str, adversary: str, key: str) -> list[float]:
    """The mean of each round."""
    return [mean(where(rows, classes=kind, method=method, adversary=adversary), key) for kind in _kinds(rows)]


def _along(rows: Rows, method: str, adversary: str, key: str) -> str:
    return of_each(_course(rows, method, adversary, key))


ITEM = Item(
    "uneven-data",
    "LeAcc and LnAcc under statistical heterogeneity",
    "Figures 7 and 8",
    cells,
    draw,
    judge,
    datasets=lambda spec: ["mnist", "cifar-100"] if spec["large_clients"] else ["mnist"],
)
