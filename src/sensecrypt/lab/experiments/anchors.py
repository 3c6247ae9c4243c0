"""Does our iLRG find what its authors published? Untrained networks, random batches of normalised images.

For FCN-3 the authors' own network and batches can be drawn again, and all digits must agree. In all cases further
networks are drawn, as networks differ and the published figures are of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from sensecrypt.data import load_dataset
from sensecrypt.lab.attacks.ilrg import FloatVector, IntVector
from sensecrypt.lab.attacks.scores import score_labels
from sensecrypt.lab.drawing import Figure, sheet
from sensecrypt.lab.experiments.anchor_batches import recovered, their_run
from sensecrypt.lab.experiments.anchor_networks import build_network
from sensecrypt.lab.experiments.charts import ranges
from sensecrypt.lab.experiments.item import Cell, Item, Outcome, Row, Rows, Spec, Verdict, graded
from sensecrypt.lab.experiments.picking import span
from sensecrypt.rng import derive_rng, derive_seed


@dataclass(frozen=True)
class Anchor:
    """A published pair of figures."""

    network: str  # as its authors call it
    dataset: str  # by our name
    samples: int  # per batch
    leacc: float  # mean LeAcc over 50 batches of one network
    lnacc: float  # mean LnAcc
    moved: bool = True  # whether the images were cropped and mirrored at random
    again: bool = False  # whether their network, batches and data can be drawn again
    about: bool = False  # whether it is approximate and of an earlier run of ours


ANCHORS = (  # Ma et al., ICLR 2023, and the logs that they published with their code
    Anchor("FCN-3", "mnist", 24, 1.000, 0.994, moved=False, again=True),
    Anchor("FCN-3", "mnist", 32, 0.982, 0.804, again=True),
    Anchor("FCN-3", "mnist", 64, 0.998, 0.598, again=True),
    Anchor("FCN-3", "mnist", 128, 1.000, 0.386, again=True),
    Anchor("LeNet-5", "mnist", 30, 0.985, 0.92, moved=False, about=True),
    Anchor("LeNet-5", "cifar-100", 24, 1.0, 1.0),
    Anchor("LeNet-5", "cifar-100", 128, 1.0, 1.0),
    Anchor("LeNet-5", "cifar-100", 512, 1.0, 0.960),
    Anchor("ResNet-18", "cifar-100", 24, 1.0, 1.0),
)
CLOSE = 0.03
EXACT = 0.0005  # published figures have three digits


def cells(spec: Spec) -> list[Cell]:
    """One cell per published pair of figures."""
    batch = {"FCN-3": 0.006, "LeNet-5": 0.02, "ResNet-18": 1.5}  # seconds
    return [
        Cell(
            f"{anchor.network}-{anchor.dataset}-{anchor.samples}",
            _networks(spec, anchor) * _batches(spec, anchor) * batch[anchor.network],
            partial(_measure, anchor, spec),
        )
        for anchor in ANCHORS
        if anchor.dataset in spec["datasets"]
    ]


def _measure(anchor: Anchor, spec: Spec, _folder: Path) -> list[Row]:
    """Means over batches: of the authors' run if it can be repeated, and of our own networks."""
    torch.set_num_threads(1)  # faster for small networks
    data = load_dataset(anchor.dataset)
    shared: Row = {"network": anchor.network, "dataset": anchor.dataset, "samples": anchor.samples}
    rows: list[Row] = []
    if anchor.again:
        batches = their_run(anchor.network, data, anchor.samples, moved=anchor.moved)
        rows.append({**shared, "run": "theirs", "number": 0, **_means(batches)})
    for number in range(_networks(spec, anchor)):
        rng = derive_rng(spec["seed"] + number, f"anchor {anchor.network} {anchor.dataset} {anchor.samples}")
        seed = derive_seed(spec["seed"] + number, f"anchor {anchor.network}")
        model, generator = build_network(anchor.network, anchor.dataset, seed)
        every = np.arange(len(data.train_labels))
        chosen = (rng.choice(every, anchor.samples, replace=False) for _ in range(_batches(spec, anchor)))
        batches = recovered(model, data, chosen, moved=anchor.moved, generator=generator)
        rows.append({**shared, "run": "ours", "number": number, **_means(batches)})
    return rows


def _means(batches: Iterable[tuple[FloatVector, IntVector]]) -> Row:
    scores = [score_labels(raw, true) for raw, true in batches]
    return {key: float(np.mean([getattr(each, key) for each in scores])) for key in ("leacc", "lnacc")}


def _networks(spec: Spec, anchor: Anchor) -> int:
    """The number of networks to draw."""
    return int(spec["resnet-18" if anchor.network == "ResNet-18" else anchor.dataset])


def _batches(spec: Spec, anchor: Anchor) -> int:
    """The number of batches per network."""
    return int(spec["batches"][0 if anchor.dataset == "mnist" else 1])


def draw(rows: Rows) -> Figure:
    """Mean and range over our networks; the published figure as a diamond, the repeated run as a cross."""
    figure, panels = sheet("iLRG: ours against its authors'", panels=2, size=(12.5, 4.6))
    anchors = _measured(rows)
    groups = [f"{each.network}\n{each.dataset}\nK = {each.samples}" for each in anchors]
    for axes, key in zip(panels, ("leacc", "lnacc"), strict=True):
        spans = [span(_of(rows, each, "ours", key).tolist()) for each in anchors]
        published = [getattr(each, key) for each in anchors]
        axes.plot(range(len(anchors)), published, "kD", ms=6, label="published", zorder=3)
        theirs = [(place, _of(rows, each, "theirs", key)) for place, each in enumerate(anchors)]
        again = [(place, float(own[0])) for place, own in theirs if own.size]
        if again:
            axes.plot(*zip(*again, strict=True), "rx", ms=11, mew=1.5, label="their run, repeated", zorder=4)
        ranges(axes, groups, {"ours: mean and range over networks": spans}, ylabel="")
        axes.tick_params(axis="x", labelsize=7)
        axes.set(title="LeAcc" if key == "leacc" else "LnAcc", ylim=(0, 1.25), yticks=np.linspace(0, 1, 6))
        axes.legend(fontsize=8, loc="upper left", ncols=3)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """All digits of the authors' run if it can be repeated; else within 0.03, or within the networks' spread."""
    verdicts = []
    for anchor in _measured(rows):
        values = [_of(rows, anchor, "ours", key) for key in ("leacc", "lnacc")]
        words = [f"{name} {_range(each)}" for name, each in zip(("LeAcc", "LnAcc"), values, strict=True)]
        count = len(values[0])
        measured = f"{f'mean of {count} networks' if count > 1 else 'one network'} of our own: {', '.join(words)}"
        said = (anchor.leacc, anchor.lnacc)
        theirs = [float(own[0]) for key in ("leacc", "lnacc") if (own := _of(rows, anchor, "theirs", key)).size]
        outcome: Outcome
        if theirs:
            exact = all(abs(own - one) <= EXACT for own, one in zip(theirs, said, strict=True))
            outcome = graded(exact)
            measured = f"their network and their 50 batches: {theirs[0]:.3f} and {theirs[1]:.3f}; {measured}"
        else:
            off = [abs(float(each.mean()) - one) for each, one in zip(values, said, strict=True)]
            near = [miss <= max(CLOSE, 1.5 * _spread(each)) for miss, each in zip(off, values, strict=True)]
            outcome = graded(max(off) <= CLOSE, all(near))
        asks = f"does iLRG find LeAcc {said[0]:.3f} and LnAcc {said[1]:.3f}, "
        asks += "as an earlier run did, about?" if anchor.about else "as published for one network?"
        subject = f"{anchor.network}, {anchor.dataset}, {anchor.samples} samples"
        verdicts.append(Verdict(f"{subject}: {asks}", measured, outcome))
    return verdicts


def _range(values: FloatVector) -> str:
    if values.size == 1:
        return f"{values[0]:.3f}"
    return f"{values.mean():.3f} (sd {_spread(values):.3f}, {values.min():.3f} to {values.max():.3f})"


def _spread(values: FloatVector) -> float:
    """The standard deviation over networks; 0 for a single network, whose spread is unknown."""
    return float(values.std(ddof=1)) if values.size > 1 else 0.0


def _measured(rows: Rows) -> list[Anchor]:
    there = {(row["network"], row["dataset"], row["samples"]) for row in rows}
    return [each for each in ANCHORS if (each.network, each.dataset, each.samples) in there]


def _of(rows: Rows, anchor: Anchor, run: str, figure_of: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    key = (anchor.network, anchor.dataset, anchor.samples, run)
    own = [row[figure_of] for row in rows if (row["network"], row["dataset"], row["samples"], row["run"]) == key]
    return np.array(own, dtype=np.float64)


ITEM = Item("anchors", "The label attack against the figures of its authors", "", cells, draw, judge)
