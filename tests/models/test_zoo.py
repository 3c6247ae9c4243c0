from __future__ import annotations

import numpy as np
import pytest
import torch

from sensecrypt import InvalidInput
from sensecrypt.models import DEFAULT_MODEL, MODELS, build_model, get_vector, parameter_count

SMALL = [name for name in MODELS if name != "resnet50"]


@pytest.mark.parametrize(
    ("name", "count", "shape", "classes"),
    [
        ("digits-mlp", 2_410, (1, 8, 8), 10),
        ("mlp", 50_890, (1, 28, 28), 10),
        ("lenet5", 44_426, (1, 28, 28), 10),
        ("alexnet", 124_534, (3, 32, 32), 10),
        ("dlg", 13_426, (1, 28, 28), 10),
        pytest.param("resnet50", 23_705_252, (3, 32, 32), 100, marks=pytest.mark.slow),
    ],
)
def test_parameter_counts_and_shapes_are_the_papers(name, count, shape, classes):
    model = build_model(name, seed=0)
    assert parameter_count(model) == count
    logits = model(torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)))
    assert logits.shape == (2, classes)
    assert torch.isfinite(logits).all()
    assert not torch.equal(logits[0], logits[1])


def test_resnets_stem_keeps_the_resolution():
    model = build_model("resnet50", seed=0)
    assert isinstance(model, torch.nn.Sequential)
    stages = [torch.zeros(1, 3, 32, 32)]
    with torch.no_grad():
        for layer in model[:-3]:
            stages.append(layer(stages[-1]))
    assert [tuple(stage.shape[1:]) for stage in (stages[3], stages[6], stages[-1])] == [
        (64, 32, 32),
        (256, 32, 32),
        (2048, 4, 4),
    ]


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_decides_and_the_global_generator_is_untouched(name):
    before = torch.get_rng_state()
    one, same, other = (get_vector(build_model(name, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert (one == same).all()
    assert (one != other).any()
    torch.rand(1)  # nor does the global state reach the weights
    assert (get_vector(build_model(name, seed=1)) == one).all()


def test_every_default_exists():
    assert set(DEFAULT_MODEL.values()) == set(MODELS) - {"dlg"}  # no data set's own: attacks ask for it by name


def test_dlgs_weights_and_biases_are_drawn_wide():
    vector = get_vector(build_model("dlg", seed=0))
    assert np.abs(vector).max() <= 0.5
    for parameter in build_model("dlg", seed=0).parameters():
        assert abs(parameter.detach().std() - 12**-0.5) < 0.1 if parameter.numel() > 100 else True
        assert parameter.detach().abs().max() > 0.25


@pytest.mark.parametrize(
    ("name", "hint"), [("ResNet-50", "'resnet50'"), ("lenet", "'lenet5'"), ("?", "digits-mlp, mlp")]
)
def test_an_unknown_name_gets_the_nearest(name, hint):
    with pytest.raises(InvalidInput) as error:
        build_model(name, seed=0)
    assert error.value.argument == "model"
    assert hint in error.value.fix


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, None])
def test_a_bad_seed_is_named(seed):
    with pytest.raises(InvalidInput) as error:
        build_model("mlp", seed=seed)
    assert error.value.argument == "seed"


@pytest.mark.parametrize("name", ["mlp", "lenet5", "alexnet"])
def test_a_new_network_tells_images_apart(name):
    """Where the signal has died out between input and output, gradients have as well, and nothing is learnt."""
    images = torch.rand(
        64, *((3, 32, 32) if name == "alexnet" else (1, 28, 28)), generator=torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        logits = build_model(name, seed=0).eval()(images)
    assert float(logits.std(dim=0).mean()) > 0.001
