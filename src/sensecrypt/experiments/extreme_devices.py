"""Attacks under extreme system heterogeneity: devices with 32 processors down to 1, each encrypting what it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sensecrypt.assess.labels import LabelSetting, label_rows
from sensecrypt.assess.protection import Protection
from sensecrypt.assess.table import attack_rows
from sensecrypt.data import load_dataset
from sensecrypt.drawing import sheet
from sensecrypt.experiments.charts import lines
from sensecrypt.experiments.item import Cell, Item, Row, Rows, Spec, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPERS = "zero-fill"  # the attacker of the paper
SMALL, LARGE = "LeNet-5, MNIST", "ResNet-50, CIFAR-100"
_FIGURES = ("leacc", "leacc_half", "lnacc", "lnacc_half")


def cells(spec: Spec) -> list[Cell]:
    """LeNet-5 under either preset; ResNet-50 a client at a time."""
    each = spec["seeds"]
    found = [
        Cell("lenet5-paper", 5.0 * each, partial(_small, spec, "paper")),
        Cell("lenet5-default", 2.0 * each, partial(_small, spec, "default")),
    ]
    for seed in range(spec["large_seeds"]):
        found.append(Cell(f"resnet50-{seed}", 200.0, partial(_large, spec, spec["first_seed"] + seed)))
    return found


def _small(spec: Spec, preset: str, _folder: Path) -> list[Row]:
    shares = spec["shares"] if preset == "paper" else spec["default_shares"]
    rows = attack_rows(
        "lenet5",
        "mnist",
        samples=spec["samples"],
        seeds=spec["seeds"],
        first_seed=spec["first_seed"],
        protections=[Protection("sensecrypt", preset, share, "plain") for share in shares],
        attacks=spec["attacks"] if preset == "paper" else spec["default_attacks"],
        workers=2,
    )
    return list(_kept(rows, SMALL, preset, spec["shares"], spec["cpus"]))


def _large(spec: Spec, seed: int, _folder: Path) -> list[Row]:
    data = load_dataset("cifar-100")
    torch.set_num_threads(2)
    setting = LabelSetting(
        model="resnet50",
        images=data.train_images,
        labels=data.train_labels,
        classes=data.classes,
        samples=spec["large_samples"],
        protections=[Protection("sensecrypt", "paper", share) for share in spec["large_shares"]],
        adversaries=("prior", PAPERS, "completion"),
    )
    rows = label_rows(setting, distributions=("iid",), seeds=1, first_seed=seed)
    return list(_kept(rows, LARGE, "paper", spec["large_shares"], spec["cpus"]))


def _kept(
    rows: Sequence[dict[str, Any]], network: str, preset: str, shares: Sequence[float], cpus: Sequence[float]
) -> Iterator[Row]:
    """Client 9 has no encryption, and 0 stands for its CPUs. Real shares differ from wanted ones by a parameter."""
    for row in rows:
        device = 0.0
        if row["policy"] != "plaintext":
            wanted = int(np.argmin([abs(row["share"] - share) for share in shares]))
            device = float(cpus[wanted])
        told = {"network": network, "preset": preset, "cpus": device, "adversary": row["adversary"]}
        yield {**told, "share": row["share"], "seeds": row["seeds"], **{key: row[key] for key in _FIGURES}}


def draw(rows: Rows) -> Figure:
    """Every attacker along the clients, from the fastest device to the one without encryption."""
    networks = list(dict.fromkeys((row["network"], row["preset"]) for row in rows))
    figure, panels = sheet(
        "Attacks under extreme system heterogeneity",
        panels=2 * len(networks),
        columns=2,
        size=(12, 3.6 * len(networks)),
    )
    for place, (network, preset) in enumerate(networks):
        own = [row for row in rows if (row["network"], row["preset"]) == (network, preset)]
        devices = sorted({row["cpus"] for row in own}, key=lambda cpus: -cpus)
        for axes, key, label in zip(
            panels[2 * place : 2 * place + 2], ("leacc", "lnacc"), ("LeAcc", "LnAcc"), strict=True
        ):
            series = {}
            for adversary in dict.fromkeys(row["adversary"] for row in own):
                at = [cpus for cpus in devices if _rows(own, network, preset, adversary, cpus)]
                means = [_mean(_rows(own, network, preset, adversary, cpus), key) for cpus in at]
                series[adversary] = ([float(devices.index(cpus)) for cpus in at], means)
            lines(axes, series, xlabel="", ylabel=label)
            names = [
                f"{cpus:g} CPU{'s' * (cpus > 1)}\n{_share(own, cpus):.3g} %" if cpus else "no\nHE" for cpus in devices
            ]
            axes.set_xticks(range(len(devices)), names, fontsize=8)
            axes.set(title=f"{network}, preset {preset}", ylim=(0, 1.05))
            axes.legend(fontsize=7, loc="lower left" if key == "leacc" else "best")
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """The paper's two statements for its attacker, then the same for stronger ones."""
    verdicts = []
    for network in dict.fromkeys(row["network"] for row in rows):
        low = "3.1 %" if network == SMALL else "5.7 %"
        devices = sorted({row["cpus"] for row in rows if row["network"] == network and row["cpus"]}, reverse=True)
        exists = [_mean(_rows(rows, network, "paper", PAPERS, cpus), "leacc") for cpus in devices]
        counted = [_mean(_rows(rows, network, "paper", PAPERS, cpus), "lnacc") for cpus in devices]
        open_, guess = (_pair(_rows(rows, network, "paper", who, 0.0)) for who in (PAPERS, "prior"))
        beside = f"no encryption {open_[0]:.2f}/{open_[1]:.2f}, guessing {guess[0]:.2f}/{guess[1]:.2f}"
        swing = max(exists) - min(exists)
        blind = [cpus for cpus, *pair in zip(devices, exists, counted, strict=True) if np.allclose(pair, guess)]
        note = f"; nothing but the guess with {', '.join(f'{cpus:g}' for cpus in blind)} CPUs" if blind else ""
        verdicts.append(
            Verdict(
                f"{network}: LeAcc remains almost static, however low the ratio (down to {low})",
                f"{_along(exists)} from the fastest to the slowest client{note}; {beside}",
                "reproduced" if swing <= 0.1 else "reproduced in shape" if swing <= 0.2 else "not reproduced",
            )
        )
        verdicts.append(
            Verdict(
                f"{network}: LnAcc is significantly lower than client 9's (no encryption), however low the ratio",
                f"{_along(counted)} from the fastest to the slowest client; {beside}",
                "reproduced" if max(counted) <= open_[1] - 0.3 else "not reproduced",
            )
        )
        verdicts.append(_stronger(rows, network, devices, open_[1], guess))
    return [*verdicts, *_default(rows)]


def _stronger(rows: Rows, network: str, devices: Sequence[float], plain: float, guess: tuple[float, float]) -> Verdict:
    own = [row for row in rows if row["network"] == network and row["preset"] == "paper" and row["cpus"]]
    names = [name for name in dict.fromkeys(row["adversary"] for row in own) if name not in ("prior", PAPERS)]
    found = {name: [_mean(_rows(rows, network, "paper", name, cpus), "lnacc") for cpus in devices] for name in names}
    words = "; ".join(f"{name} {_along(values)}" for name, values in found.items())
    broken = max(max(values) for values in found.values()) > plain - 0.3
    return Verdict(
        f"(ours) {network}: does the same hold against stronger attackers?",
        f"LnAcc from the fastest to the slowest client: {words}; guessing {guess[1]:.2f}",
        "not reproduced" if broken else "beyond",
    )


def _default(rows: Rows) -> Iterator[Verdict]:
    own = [row for row in rows if row["preset"] == "default" and row["cpus"]]
    if not own:
        return
    guess = _pair(_rows(rows, SMALL, "default", "prior", 0.0))[1]
    for who, inside in (("the aggregator alone", False), ("the aggregator with a member of the cluster", True)):
        seen = [row for row in own if (row["adversary"] == "collusion") == inside and row["adversary"] != "prior"]
        if not seen:
            continue
        found = [
            max((row for row in seen if row["cpus"] == cpus), key=lambda row: row["lnacc"])
            for cpus in sorted({row["cpus"] for row in seen}, reverse=True)
        ]
        words = ", ".join(f"{row['lnacc']:.2f} at {row['share']:.1%} ({row['adversary']})" for row in found)
        yield Verdict(
            f"(ours) preset default, with a secret order: is {who} kept at guessing, however low the ratio?",
            f"LnAcc of the best attacker {words}; guessing {guess:.2f}",
            "beyond" if max(row["lnacc"] for row in found) <= guess + 0.05 else "not reproduced",
        )


def _rows(rows: Rows, network: str, preset: str, adversary: str, cpus: float) -> list[Any]:
    wanted = (network, preset, adversary, cpus)
    return [row for row in rows if (row["network"], row["preset"], row["adversary"], row["cpus"]) == wanted]


def _mean(rows: Sequence[Any], key: str) -> float:
    return float(np.average([row[key] for row in rows], weights=[row["seeds"] for row in rows]))


def _pair(rows: Sequence[Any]) -> tuple[float, float]:
    return _mean(rows, "leacc"), _mean(rows, "lnacc")


def _share(rows: Rows, cpus: float) -> float:
    return 100 * float(np.mean([row["share"] for row in rows if row["cpus"] == cpus]))


def _along(values: Sequence[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


ITEM = Item(
    "extreme-devices",
    "Attack results under extreme system heterogeneity",
    "Figure 6",
    lambda spec: ["mnist", "cifar-100"] if spec["large_seeds"] else ["mnist"],
    cells,
    draw,
    judge,
)
