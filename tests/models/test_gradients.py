from __future__ import annotations

import numpy as np
import pytest
import torch

from sensecrypt import InvalidInput
from sensecrypt.models import build_model, mean_gradient, sample_gradients


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_a_sample_s_gradient_is_that_of_the_sample_alone(chunk):
    model, rng = build_model("digits-mlp", seed=3), torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(7, 1, 8, 8, generator=rng), torch.arange(7)
    parts = list(sample_gradients(model, inputs, labels, chunk=chunk))
    assert max(map(len, parts)) <= (chunk or 7)
    rows = np.concatenate(parts)
    alone = [mean_gradient(model, inputs[i : i + 1], labels[i : i + 1]) for i in range(7)]
    np.testing.assert_allclose(rows, alone, atol=1e-6)
    np.testing.assert_allclose(rows.mean(axis=0), mean_gradient(model, inputs, labels), atol=1e-6)


def test_a_chunk_has_samples():
    with pytest.raises(InvalidInput, match="chunk"):
        list(
            sample_gradients(build_model("digits-mlp", seed=3), torch.zeros(1, 1, 8, 8), torch.zeros(1).long(), chunk=0)
        )
