"""Attacks under statistical heterogeneity: SenseCrypt and MaskCrypt on clients with ever fewer classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from sensecrypt.assess.labels import LabelSetting, label_rows
from sensecrypt.assess.protection import Protection
from sensecrypt.data import load_dataset
from sensecrypt.drawing import sheet
from sensecrypt.experiments.charts import Range, ranges
from sensecrypt.experiments.item import Cell, Item, Row, Rows, Spec, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPERS = "zero-fill"  # the attacker of the paper
STRONG = ("prototype", "mask-only")
MATCHING = "value-matching"  # against a secret order
SENSE, MASK, OURS = "SenseCrypt", "MaskCrypt", "SenseCrypt (default)"
PROTECTIONS = {("sensecrypt", "paper"): SENSE, ("maskcrypt", "paper"): MASK, ("sensecrypt", "default"): OURS}
SMALL, LARGE = "LeNet-5, MNIST", "ResNet-50, CIFAR-100"
_SETTINGS = {SMALL: ("lenet5", "mnist"), LARGE: ("resnet50", "cifar-100")}


def cells(spec: Spec) -> list[Cell]:
    """For each distribution the quick attackers, then the slow ones on fewer clients, then ResNet-50."""
    found = []
    for kind in spec["distributions"]:
        few, many = spec["strong_clients"], spec["clients"]
        found.append(Cell(f"lenet5-{kind}", 0.9 * many, partial(_measure, spec, SMALL, kind, many, spec["attacks"])))
        found.append(
            Cell(f"lenet5-{kind}-strong", 8.0 * few, partial(_measure, spec, SMALL, kind, few, (*STRONG, MATCHING)))
        )
    if spec["large_clients"]:
        clients, attacks = spec["large_clients"], (PAPERS, "completion")
        for kind in spec["distributions"]:
            found.append(
                Cell(f"resnet50-{kind}", 100.0 * clients, partial(_measure, spec, LARGE, kind, clients, attacks))
            )
    return found


def _measure(spec: Spec, network: str, kind: str, clients: int, attacks: Sequence[str], _folder: Path) -> list[Row]:
    """A row for each client, so that the least and the most are there, too."""
    model, dataset = _SETTINGS[network]
    large = network == LARGE
    data = load_dataset(dataset)
    torch.set_num_threads(2 if large else 1)
    share = spec["large_share"] if large else spec["share"]
    setting = LabelSetting(
        model=model,
        images=data.train_images,
        labels=data.train_labels,
        classes=data.classes,
        samples=spec["large_samples"] if large else spec["samples"],
        protections=[Protection(*each, share, "plain") for each in PROTECTIONS if not large or each[1] == "paper"],
        adversaries=("prior", *attacks),
    )
    rows: list[Row] = []
    for client in range(clients):
        for row in label_rows(setting, distributions=(kind,), seeds=1, first_seed=spec["first_seed"] + client):
            told = {"network": network, "classes": kind, "client": client, "adversary": row["adversary"]}
            method = PROTECTIONS.get((row["policy"], row["preset"]), "nothing")
            rows.append({**told, "method": method, **{key: row[key] for key in ("share", "leacc", "lnacc")}})
    return rows


def draw(rows: Rows) -> Figure:
    """As in the paper, least, mean and most over clients; below, the stronger attackers."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure, panels = sheet(
        "Attacks under statistical heterogeneity: least, mean and most over clients",
        panels=2 * len(networks) + 2,
        columns=2,
        size=(12, 3.6 * (len(networks) + 1)),
    )
    wanted = {
        "nothing encrypted": ("nothing", PAPERS),
        MASK: (MASK, PAPERS),
        SENSE: (SENSE, PAPERS),
        OURS: (OURS, PAPERS),
        "guessing": ("nothing", "prior"),
    }
    stronger = {f"{method}: {name}": (method, name) for method in (MASK, SENSE) for name in STRONG}
    stronger |= {f"{SENSE}: sensitivity": (SENSE, "sensitivity"), f"{OURS}: {MATCHING}": (OURS, MATCHING)}
    for place, network in enumerate([*networks, SMALL]):
        shown = stronger if place == len(networks) else wanted
        kinds = _kinds(rows, network)
        for axes, key, label in zip(
            panels[2 * place : 2 * place + 2], ("leacc", "lnacc"), ("LeAcc", "LnAcc"), strict=True
        ):
            series = {
                name: [_range(rows, network, kind, *who, key) for kind in kinds]
                for name, who in shown.items()
                if _values(rows, network, kinds[0], *who, key)
            }
            ranges(axes, [_called(kind) for kind in kinds], series, ylabel=label)
            what = "stronger attackers" if place == len(networks) else "the paper's attacker"
            axes.set(title=f"{network}: {what}", ylim=(0, 1.5), yticks=np.linspace(0, 1, 6))
            axes.legend(fontsize=7, ncols=2, loc="upper left")
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The paper's statements about its attacker, then what stronger ones find."""
    verdicts = []
    for network in dict.fromkeys(row["network"] for row in rows):
        verdicts += list(_papers(rows, network))
        verdicts += list(_against_stronger(rows, network))
    return verdicts


def _papers(rows: Rows, network: str) -> Iterator[Verdict]:
    kinds = _kinds(rows, network)
    beside = (
        f"guessing {_along(rows, network, 'nothing', 'prior', 'lnacc')}, "
        f"nothing encrypted {_along(rows, network, 'nothing', PAPERS, 'lnacc')}"
    )
    for key, label, among in (("lnacc", "LnAcc", kinds), ("leacc", "LeAcc", kinds[1:])):
        mask, sense = ([_mean(rows, network, kind, who, PAPERS, key) for kind in among] for who in (MASK, SENSE))
        rises, stays = mask[-1] - mask[0], max(sense) - min(sense)
        rounds = "" if key == "lnacc" else " (from round 2 on)"
        note = beside if key == "lnacc" else f"guessing {_along(rows, network, 'nothing', 'prior', 'leacc')}"
        yield Verdict(
            f"{network}: {label} of MaskCrypt rises significantly with the Non-IID degree{rounds}",
            f"{_along(rows, network, MASK, PAPERS, key)} from IID to 1 class; {note}",
            "reproduced" if rises >= 0.15 else "not reproduced",
        )
        yield Verdict(
            f"{network}: {label} of SenseCrypt remains almost static{rounds}",
            f"{_along(rows, network, SENSE, PAPERS, key)} from IID to 1 class: it rises by {sense[-1] - sense[0]:.2f} "
            f"where MaskCrypt's rises by {rises:.2f}",
            "reproduced" if stays <= 0.1 else "reproduced in shape" if stays <= rises / 2 else "not reproduced",
        )
    first = {who: [_mean(rows, network, kind, who, PAPERS, "leacc") for kind in kinds] for who in (MASK, SENSE)}
    high = all(values[0] - max(values[1:]) >= 0.1 for values in first.values())
    yield Verdict(
        f"{network}: LeAcc is exceptionally high in round 1, as iLRG infers by default that all labels exist",
        "; ".join(f"{who} {' '.join(f'{value:.2f}' for value in values)}" for who, values in first.items())
        + f"; guessing that all exist {_mean(rows, network, kinds[0], 'nothing', 'prior', 'leacc'):.2f} in round 1",
        "reproduced" if high else "not reproduced",
    )


def _against_stronger(rows: Rows, network: str) -> Iterator[Verdict]:
    """What the best attacker has beyond guessing, on the very clients that he attacked."""
    kinds = _kinds(rows, network)
    names = [name for name in dict.fromkeys(row["adversary"] for row in rows) if name not in ("prior", PAPERS)]
    for method in (SENSE, OURS):
        seen = [name for name in names if _values(rows, network, kinds[0], method, name, "lnacc")]
        if not seen:
            continue
        gain = max(_gain(rows, network, kind, method, name) for kind in kinds for name in seen)
        words = "; ".join(f"{name} {_along(rows, network, method, name, 'lnacc')}" for name in seen)
        others = [name for name in seen if _values(rows, network, kinds[0], MASK, name, "lnacc")]
        beside = "; ".join(f"{name} {_along(rows, network, MASK, name, 'lnacc')}" for name in others)
        yield Verdict(
            f"(ours) {network}: does {method} withstand stronger attackers, too?",
            f"LnAcc from IID to 1 class: {words}; at best {gain:+.2f} against guessing. MaskCrypt: {beside}",
            "beyond" if gain <= 0.05 else "not reproduced",
        )


def _gain(rows: Rows, network: str, kind: str, method: str, adversary: str) -> float:
    found = _values(rows, network, kind, method, adversary, "lnacc")
    guessed = _values(rows, network, kind, "nothing", "prior", "lnacc")
    return float(np.mean([value - guessed[client] for client, value in found.items()]))


def _kinds(rows: Rows, network: str) -> list[str]:
    return list(dict.fromkeys(row["classes"] for row in rows if row["network"] == network))


def _called(kind: str) -> str:
    return {"iid": "IID", "1": "1 class"}.get(kind, f"{kind} classes")


def _values(rows: Rows, network: str, kind: str, method: str, adversary: str, key: str) -> dict[int, float]:
    """By client."""
    wanted = (network, kind, method, adversary)
    return {
        row["client"]: row[key]
        for row in rows
        if (row["network"], row["classes"], row["method"], row["adversary"]) == wanted
    }


def _mean(rows: Rows, network: str, kind: str, method: str, adversary: str, key: str) -> float:
    return float(np.mean(list(_values(rows, network, kind, method, adversary, key).values())))


def _range(rows: Rows, network: str, kind: str, method: str, adversary: str, key: str) -> Range:
    values = list(_values(rows, network, kind, method, adversary, key).values())
    return min(values), float(np.mean(values)), max(values)


def _along(rows: Rows, network: str, method: str, adversary: str, key: str) -> str:
    return " ".join(f"{_mean(rows, network, kind, method, adversary, key):.2f}" for kind in _kinds(rows, network))


ITEM = Item(
    "uneven-data",
    "LeAcc and LnAcc under statistical heterogeneity",
    "Figures 7 and 8",
    lambda spec: ["mnist", "cifar-100"] if spec["large_clients"] else ["mnist"],
    cells,
    draw,
    judge,
)
