"""Five devices train one small network on digits; each encrypts what fits it.

    python examples/choose_for_devices.py

Sensitivities come from real training, budgets from the devices, and the choice is exact. No cryptography yet.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from sensecrypt import encryption_budgets, select, sensitivity

BANDWIDTH = [50, 45, 40, 35, 30]  # megabytes a second
CPUS = [24, 16, 12, 10, 8]
B, C, MAX_MI = 1.3, 0.7, 2.0  # the paper's values


def gradients(layers: list[np.ndarray], x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Of the cross-entropy of a 64-32-10 network with ReLU."""
    w1, b1, w2, b2 = layers
    hidden = np.maximum(x @ w1 + b1, 0)
    logits = hidden @ w2 + b2
    error = np.exp(logits - logits.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    back = error @ w2.T * (hidden > 0)
    return [x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]


def train(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """A few epochs of plain gradient descent."""
    layers = [rng.normal(0, 0.2, (64, 32)), np.zeros(32), rng.normal(0, 0.2, (32, 10)), np.zeros(10)]
    for _ in range(300):
        layers = [layer - 0.5 * step for layer, step in zip(layers, gradients(layers, x, y), strict=True)]
    return layers


def main() -> None:
    """Train on each device's own fifth of the digits and print what it would encrypt."""
    rng = np.random.default_rng(0)
    digits = load_digits()
    shares = np.array_split(rng.permutation(len(digits.target)), len(CPUS))
    budgets = encryption_budgets(BANDWIDTH, CPUS)
    table = Table(title="What five devices encrypt of a 64-32-10 network", title_justify="left")
    for column in ("MB/s", "CPUs", "budget", "encrypted", "coverage", "floor", "MI bits", "decided by"):
        table.add_column(column, justify="right")
    for device, (share, budget) in enumerate(zip(shares, budgets, strict=True)):
        x, y = digits.data[share] / 16, digits.target[share]
        layers = train(x, y, rng)
        scores = sensitivity(layers, gradients(layers, x, y))
        weights = np.concatenate([layer.ravel() for layer in layers])
        gains = np.concatenate([score.ravel() for score in scores])
        choice = select(gains, budget, B=B, C=C, max_mi=MAX_MI, weights=weights, objective="protect")
        encrypted = f"{choice.mask.share:.0%}"
        cells = (BANDWIDTH[device], CPUS[device], f"{budget:.2f}", encrypted, f"{choice.coverage:.2f}")
        reasons = (f"{choice.security_floor:.2f}", f"{choice.mi:.2f}", choice.decided_by)
        table.add_row(*map(str, cells + reasons))
    Console().print(table)


if __name__ == "__main__":
    main()
