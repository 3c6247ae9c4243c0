from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sensecrypt.data import Dataset
from sensecrypt.lab.drawing import style, to_png
from sensecrypt.lab.experiments import anchor_batches, anchors
from sensecrypt.lab.experiments.anchor_networks import build_network
from sensecrypt.lab.experiments.anchors import ANCHORS, cells, draw, judge
from sensecrypt.lab.experiments.specs import read_spec


def rows_at(leacc, lnacc, spread=0.0, key=("LeNet-5", "cifar-100", 24), theirs=None):
    shared = dict(zip(("network", "dataset", "samples"), key, strict=True))
    ours = [
        {**shared, "run": "ours", "number": n, "leacc": leacc, "lnacc": lnacc + sign * spread}
        for n, sign in enumerate((-1, 1))
    ]
    return (
        ours if theirs is None else [{**shared, "run": "theirs", "number": 0, "leacc": leacc, "lnacc": theirs}, *ours]
    )


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        (rows_at(1.0, 0.98), "reproduced"),
        (rows_at(1.0, 0.95, spread=0.05), "reproduced in shape"),
        (rows_at(1.0, 0.95, spread=0.01), "not reproduced"),
        (rows_at(0.9, 1.0), "not reproduced"),
        (rows_at(1.0, 0.5, key=("FCN-3", "mnist", 24), theirs=0.994), "reproduced"),
        (rows_at(1.0, 0.994, key=("FCN-3", "mnist", 24), theirs=0.992), "not reproduced"),
    ],
)
def test_the_same_run_to_the_last_digit_or_near_or_within_the_spread(rows, outcome):
    assert judge(rows)[0].outcome == outcome


@pytest.mark.parametrize(("lnacc", "outcome"), [(0.98, "reproduced"), (0.95, "not reproduced")])
def test_a_network_alone_has_no_spread(lnacc, outcome):
    [verdict] = judge(rows_at(1.0, lnacc)[:1])
    assert verdict.outcome == outcome
    assert verdict.measured == f"one network of our own: LeAcc 1.000, LnAcc {lnacc:.3f}"


def test_the_same_rows_give_the_same_picture():
    rows = [
        row
        for each in ANCHORS
        for row in rows_at(
            each.leacc,
            each.lnacc - 0.1,
            0.02,
            (each.network, each.dataset, each.samples),
            theirs=each.lnacc if each.again else None,
        )
    ]
    with style("figures"):
        assert to_png(draw(rows)) == to_png(draw(rows))


def test_a_moved_image_is_a_crop_of_itself_with_a_margin():
    rng = np.random.default_rng(0)
    images = rng.integers(1, 256, (40, 3, 9, 7), dtype=np.uint8)
    moved = anchor_batches._moved(images, torch.Generator().manual_seed(5))
    wide = np.pad(images, ((0, 0), (0, 0), (4, 4), (4, 4)))
    crops = {
        (number, side, row, column)
        for number in range(40)
        for row in range(9)
        for column in range(9)
        for side in (1, -1)
        if np.array_equal(moved[number], wide[number, :, row : row + 9, column : column + 7][:, :, ::side])
    }
    assert {number for number, *_ in crops} == set(range(40))
    assert {side for _, side, *_ in crops} == {1, -1}
    assert len({(row, column) for *_, row, column in crops}) > 20


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_cells_have_names_of_their_own(scale):
    names = [cell.name for cell in cells(read_spec("anchors", scale, {}).settings)]
    assert len(set(names)) == len(names) == len(ANCHORS)


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
    assert sum(row["run"] == "ours" for row in rows) == len(ANCHORS)
    assert sum(row["run"] == "theirs" for row in rows) == sum(each.again for each in ANCHORS) == 4
    assert all(0 <= row[key] <= 1 for row in rows for key in ("leacc", "lnacc"))
    first = next(row for row in rows if row["samples"] == 24)
    assert first["leacc"] > 0.9  # iLRG reads fresh networks whatever the images are


@pytest.mark.parametrize(
    ("network", "dataset"), [("FCN-3", "mnist"), ("LeNet-5", "cifar-100"), ("ResNet-18", "cifar-100")]
)
def test_the_head_s_gradient_is_the_network_s(network, dataset):
    model, _ = build_network(network, dataset, 3)
    shape, classes = ((1, 28, 28), 10) if dataset == "mnist" else ((3, 32, 32), 100)
    images, labels = torch.rand(6, *shape), torch.arange(6)
    g_weight, g_bias = anchor_batches._head_gradient(model[:-1], model[-1], images, labels)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    whole = torch.autograd.grad(loss, list(model.parameters()))
    assert np.array_equal(g_weight, whole[-2].numpy())
    assert np.array_equal(g_bias, whole[-1].numpy())
    assert len(g_bias) == classes


def test_a_seed_gives_the_same_network_again():
    one, other = (build_network("ResNet-18", "cifar-100", 5)[0].state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (
        sum(tensor.numel() for name, tensor in one.items() if "running" not in name and "num_" not in name)
        == 11_220_132
    )
