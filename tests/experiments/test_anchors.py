from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sensecrypt.data import Dataset
from sensecrypt.drawing import style, to_png
from sensecrypt.experiments import anchors
from sensecrypt.experiments.anchor_networks import build_network
from sensecrypt.experiments.anchors import PUBLISHED, cells, draw, judge
from sensecrypt.experiments.specs import read_spec


def rows_at(leacc, lnacc, spread=0.0, key=("FCN-3", "mnist", 24)):
    shared = dict(zip(("network", "dataset", "samples"), key, strict=True))
    return [{**shared, "number": n, "leacc": leacc, "lnacc": lnacc + sign * spread} for n, sign in enumerate((-1, 1))]


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        (rows_at(1.0, 0.97), "reproduced"),
        (rows_at(1.0, 0.94, spread=0.05), "reproduced in shape"),
        (rows_at(1.0, 0.94, spread=0.01), "not reproduced"),
        (rows_at(0.9, 0.994), "not reproduced"),
    ],
)
def test_near_the_published_figure_or_within_the_spread(rows, outcome):
    assert judge(rows)[0].outcome == outcome


def test_the_same_rows_give_the_same_picture():
    rows = [row for key, (leacc, lnacc) in PUBLISHED.items() for row in rows_at(leacc, lnacc - 0.1, 0.02, key)]
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("anchors", scale, {}).settings)]
    assert len(set(names)) == len(names) == len(PUBLISHED)


def test_every_network_is_measured(monkeypatch):
    rng = np.random.default_rng(0)

    def some(name):
        classes, shape = (10, (1, 28, 28)) if name == "mnist" else (100, (3, 32, 32))
        images, labels = rng.integers(0, 256, (600, *shape), dtype=np.uint8), rng.integers(0, classes, 600)
        return Dataset(name, images, labels, images, labels, classes)

    monkeypatch.setattr(anchors, "load_dataset", some)
    spec = {
        "datasets": ["mnist", "cifar-100"],
        "mnist": 1,
        "cifar-100": 1,
        "resnet-18": 1,
        "batches": [1, 1],
        "seed": 0,
    }
    rows = [row for cell in cells(spec) for row in cell.measure(Path())]
    assert len(rows) == len(PUBLISHED)
    assert all(0 <= row[key] <= 1 for row in rows for key in ("leacc", "lnacc"))
    first = next(row for row in rows if row["samples"] == 24)
    assert first["leacc"] > 0.9  # iLRG reads fresh networks whatever the images are


@pytest.mark.parametrize(
    ("network", "dataset"), [("FCN-3", "mnist"), ("LeNet-5", "cifar-100"), ("ResNet-18", "cifar-100")]
)
def test_the_head_s_gradient_is_the_network_s(network, dataset):
    model = build_network(network, dataset, 3)
    shape, classes = ((1, 28, 28), 10) if dataset == "mnist" else ((3, 32, 32), 100)
    images, labels = torch.rand(6, *shape), torch.arange(6)
    g_weight, g_bias = anchors._head_gradient(model[:-1], model[-1], images, labels)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    whole = torch.autograd.grad(loss, list(model.parameters()))
    assert np.array_equal(g_weight, whole[-2].numpy())
    assert np.array_equal(g_bias, whole[-1].numpy())
    assert len(g_bias) == classes


def test_a_seed_gives_the_same_network_again():
    one, other = (build_network("ResNet-18", "cifar-100", 5).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (
        sum(tensor.numel() for name, tensor in one.items() if "running" not in name and "num_" not in name)
        == 11_220_132
    )
