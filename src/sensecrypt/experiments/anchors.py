"""Does our iLRG find what its authors published? Untrained networks, random batches of normalised images."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import nn

from sensecrypt.attacks.ilrg import ilrg
from sensecrypt.attacks.scores import score_labels
from sensecrypt.data import load_dataset
from sensecrypt.drawing import sheet
from sensecrypt.experiments.anchor_networks import build_network
from sensecrypt.experiments.charts import ranges
from sensecrypt.experiments.item import Cell, Item, Outcome, Row, Rows, Spec, Verdict
from sensecrypt.rng import derive_rng, derive_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# LeAcc and LnAcc of Ma et al., ICLR 2023; those of LeNet-5 on MNIST are not theirs but an earlier run's, about.
PUBLISHED = {
    ("FCN-3", "mnist", 24): (1.000, 0.994),
    ("FCN-3", "mnist", 32): (0.982, 0.804),
    ("FCN-3", "mnist", 64): (0.998, 0.598),
    ("LeNet-5", "mnist", 30): (0.985, 0.92),
    ("LeNet-5", "cifar-100", 24): (1.0, 1.0),
    ("LeNet-5", "cifar-100", 128): (1.0, 1.0),
    ("LeNet-5", "cifar-100", 512): (1.0, 0.960),
    ("ResNet-18", "cifar-100", 24): (1.0, 1.0),
}
EARLIER = ("LeNet-5", "mnist", 30)
CLOSE = 0.03
_SCALES = {  # mean and deviation of the training images, channel by channel
    "mnist": ([0.1307], [0.3081]),
    "cifar-100": ([0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
}


def cells(spec: Spec) -> list[Cell]:
    """A cell a published pair of figures."""
    chosen = [key for key in PUBLISHED if key[1] in spec["datasets"]]
    batch = {"FCN-3": 0.006, "LeNet-5": 0.02, "ResNet-18": 1.5}  # seconds
    return [
        Cell(
            f"{network}-{dataset}-{samples}",
            _networks(spec, network, dataset) * spec["batches"][0 if dataset == "mnist" else 1] * batch[network],
            measure,
        )
        for network, dataset, samples in chosen
        for measure in [partial(_measure, network, dataset, samples, spec)]
    ]


def _measure(network: str, dataset: str, samples: int, spec: Spec, _folder: Path) -> list[Row]:
    """The mean over random batches, network by network."""
    torch.set_num_threads(1)  # small networks: a second thread costs more than it gives
    data = load_dataset(dataset)
    mean, deviation = (torch.tensor(each).reshape(1, -1, 1, 1) for each in _SCALES[dataset])
    rows: list[Row] = []
    for number in range(_networks(spec, network, dataset)):
        rng = derive_rng(spec["seed"] + number, f"anchor {network} {dataset} {samples}")
        model = build_network(network, dataset, derive_seed(spec["seed"] + number, f"anchor {network}"))
        body, head = model[:-1], cast(nn.Linear, model[-1])
        weight, bias = head.weight.detach().numpy(), head.bias.detach().numpy()
        scores = []
        for _ in range(spec["batches"][0 if dataset == "mnist" else 1]):
            chosen = rng.choice(len(data.train_labels), samples, replace=False)
            images = (torch.from_numpy(data.train_images[chosen]).float() / 255 - mean) / deviation
            labels = data.train_labels[chosen]
            g_weight, g_bias = _head_gradient(body, head, images, torch.from_numpy(labels))
            raw = ilrg(g_weight, g_bias, weight, bias, samples)
            scores.append(score_labels(raw, np.bincount(labels, minlength=data.classes)))
        leacc, lnacc = (float(np.mean([getattr(each, key) for each in scores])) for key in ("leacc", "lnacc"))
        where: Row = {"network": network, "dataset": dataset, "samples": samples, "number": number}
        rows.append({**where, "leacc": leacc, "lnacc": lnacc})
    return rows


def _networks(spec: Spec, network: str, dataset: str) -> int:
    """How many are drawn."""
    return int(spec["resnet-18" if network == "ResNet-18" else dataset])


def _head_gradient(
    body: nn.Module, head: nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float32]], np.ndarray[tuple[int], np.dtype[np.float32]]]:
    """The batch-mean gradient of the last layer, which is all that iLRG reads."""
    with torch.no_grad():
        embeddings = body(images)
    loss = nn.functional.cross_entropy(head(embeddings), labels)
    g_weight, g_bias = torch.autograd.grad(loss, list(head.parameters()))
    return g_weight.numpy(), g_bias.numpy()


def draw(rows: Rows) -> Figure:
    """Mean and range over the networks, the published figure as a diamond."""
    figure, panels = sheet("iLRG: ours against its authors'", panels=2, size=(12, 4.4))
    keys = list(dict.fromkeys((row["network"], row["dataset"], row["samples"]) for row in rows))
    groups = [f"{network}\n{dataset}\nK = {samples}" for network, dataset, samples in keys]
    for axes, figure_of, place in zip(panels, ("leacc", "lnacc"), (0, 1), strict=True):
        values = [_over_networks(rows, key, figure_of) for key in keys]
        spans = [(float(each.min()), float(each.mean()), float(each.max())) for each in values]
        axes.plot(range(len(keys)), [PUBLISHED[key][place] for key in keys], "kD", ms=6, label="published", zorder=3)
        ranges(axes, groups, {"ours: mean and range over networks": spans}, ylabel="")
        axes.tick_params(axis="x", labelsize=8)
        axes.set(title="LeAcc" if place == 0 else "LnAcc", ylim=(0, 1.2), yticks=np.linspace(0, 1, 6))
        axes.legend(fontsize=8, loc="upper left", ncols=2)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """Within 0.03 of the published figures, or inside the networks' own spread."""
    verdicts = []
    for key in dict.fromkeys((row["network"], row["dataset"], row["samples"]) for row in rows):
        network, dataset, samples = key
        values = [_over_networks(rows, key, figure_of) for figure_of in ("leacc", "lnacc")]
        words = [
            f"{name} {each.mean():.3f} (sd {each.std(ddof=1):.3f}, {each.min():.3f} to {each.max():.3f})"
            for name, each in zip(("LeAcc", "LnAcc"), values, strict=True)
        ]
        said = PUBLISHED[key]
        off = [abs(float(each.mean()) - one) for each, one in zip(values, said, strict=True)]
        near = [miss <= max(CLOSE, 1.5 * float(each.std(ddof=1))) for miss, each in zip(off, values, strict=True)]
        outcome: Outcome = (
            "reproduced" if max(off) <= CLOSE else "reproduced in shape" if all(near) else "not reproduced"
        )
        verdicts.append(
            Verdict(
                f"{network}, {dataset}, {samples} samples: does iLRG find LeAcc {said[0]:.3f} and LnAcc {said[1]:.3f}, "
                + ("as an earlier run did, about?" if key == EARLIER else "as published for one network?"),
                f"mean of {len(values[0])} networks: {', '.join(words)}",
                outcome,
            )
        )
    return verdicts


def _over_networks(
    rows: Rows, key: tuple[str, str, int], figure_of: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    own = [row[figure_of] for row in rows if (row["network"], row["dataset"], row["samples"]) == key]
    return np.array(own, dtype=np.float64)


ITEM = Item(
    "anchors",
    "The label attack against the figures of its authors",
    "",
    lambda spec: list(spec["datasets"]),
    cells,
    draw,
    judge,
)
