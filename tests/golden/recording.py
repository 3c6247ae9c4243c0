"""Runs a configuration and returns what is recorded of it, as JSON can hold it."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.golden.adapter import Sent, Summed, run_on_fleet, run_on_one_machine
from tests.golden.configurations import Configuration

# Measured on this machine, so different in every run. A record key that is not in here is compared.
MEASURED = frozenset(
    {
        "train_seconds",
        "sensitivity_seconds",
        "pass_seconds",
        "select_seconds",
        "protect_seconds",
        "encrypt_seconds",
        "ahead_seconds",
        "order_protect_seconds",
        "order_encrypt_seconds",
        "order_ahead_seconds",
        "aggregate_seconds",
        "add_seconds",
        "release_seconds",
        "decrypt_seconds",
        "multiply_seconds",
        "add_plain_seconds",
        "measured_bandwidth",
    }
)

# In calibrated runs these are a number of ciphertexts times a fixed price, and so are compared.
CHARGED = frozenset(
    {
        "encrypt_seconds",
        "order_encrypt_seconds",
        "add_seconds",
        "decrypt_seconds",
        "multiply_seconds",
        "add_plain_seconds",
    }
)

# Who is in which part of a fleet's sum is drawn anew in every run, and what adding the parts up takes depends on it.
DRAWN = frozenset({"added_blocks"})

_SHOWN = 8  # of a model's values


def record(configuration: Configuration, folder: Path) -> dict[str, Any]:
    """Play a configuration in an empty folder; what is recorded of it."""
    play = run_on_fleet if configuration.where == "fleet" else run_on_one_machine
    played = play(configuration.settings, folder, lost=configuration.lost)
    dropped = MEASURED - (CHARGED if configuration.settings.get("crypto") == "calibrated" else set())
    dropped |= DRAWN if configuration.where == "fleet" else set()
    recorded = {
        "labels": played.labels,
        "models": [
            {"sha256": sha256, "computed_sha256": _sha256(model.tobytes()), **_statistics(model)}
            for sha256, model in zip(played.sha256, played.models, strict=True)
        ],
        "accuracy": played.accuracy,
        "uploads": [
            {"round": number, "client": client, **_upload(sent)}
            for (number, client), sent in sorted(played.uploads.items())
        ],
        "sums": [
            {"round": number, "cluster": cluster, **_sum(summed)}
            for (number, cluster), summed in sorted(played.sums.items())
        ],
        "records": [{key: each for key, each in one.items() if key not in dropped} for one in played.records],
    }
    return {name: _without_nan(each) for name, each in recorded.items()}


def plain(configuration: Configuration) -> dict[str, Any]:
    """A configuration as JSON gives it back."""
    fields = {**vars(configuration), "lost": sorted(configuration.lost)}
    return dict(json.loads(json.dumps(fields)))


def platform() -> str:
    """A hash of a small training run that uses none of the code under test.

    Equal hashes mean that PyTorch and NumPy round alike here and where it was recorded; then models are equal to the
    bit, or the code under test has changed.
    """
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.standard_normal((96, 64), dtype=np.float32))
    labels = torch.from_numpy(rng.integers(0, 10, 96))
    first = torch.from_numpy(rng.standard_normal((64, 32), dtype=np.float32) / 8).requires_grad_()
    second = torch.from_numpy(rng.standard_normal((32, 10), dtype=np.float32) / 6).requires_grad_()
    optimizer = torch.optim.SGD([first, second], lr=0.05, momentum=0.5)
    for start in [0, 32, 64] * 5:
        batch = slice(start, start + 32)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(torch.relu(inputs[batch] @ first) @ second, labels[batch])
        torch.autograd.backward(loss)
        optimizer.step()
    trained = [each.detach().numpy() for each in (first, second)]
    product = np.exp(trained[0].astype(np.float64)) @ trained[1]
    return _sha256(b"".join(each.tobytes() for each in (*trained, product)))


def _without_nan(value: Any) -> Any:
    """NaN, an accuracy that was not reported, as None."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _statistics(model: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, Any]:
    """What is left of a model where its bits cannot be compared."""
    values = model.astype(np.float64)
    return {
        "size": model.size,
        "norm": round(float(np.linalg.norm(values)), 4),
        "mean": round(float(values.mean()), 4),
        "first": [round(float(each), 4) for each in values[:_SHOWN]],
    }


def _upload(sent: Sent) -> dict[str, Any]:
    mask = f"prefix {sent.prefix}" if sent.prefix >= 0 else _sha256(sent.mask)
    return {
        "bytes": sent.length,
        "attempt": sent.attempt,
        "blocks": sent.blocks,
        "plain": sent.plain,
        "mask_sha256": mask,
    }


def _sum(summed: Summed) -> dict[str, Any]:
    order = None if summed.order is None else _sha256(summed.order.astype("<i8").tobytes())
    return {
        "aggregate_bytes": summed.aggregate_bytes,
        "order_sha256": order,
        "model_sha256": _sha256(summed.model.tobytes()),
    }


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
