"""The model, its data and its evaluation."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

CLASSES, FEATURES = 10, 64


def make_model(steps: int) -> LogisticRegression:
    """Logistic regression that continues from its current coefficients."""
    model = LogisticRegression(max_iter=steps, warm_start=True)
    set_arrays(model, {"coef": np.zeros((CLASSES, FEATURES)), "intercept": np.zeros(CLASSES)})
    return model


def arrays_of(model: LogisticRegression) -> dict[str, np.ndarray]:
    """The arrays of a model."""
    return {"coef": model.coef_, "intercept": model.intercept_}


def set_arrays(model: LogisticRegression, arrays: dict[str, np.ndarray]) -> None:
    """Set the arrays of a model."""
    model.classes_ = np.arange(CLASSES)
    model.coef_, model.intercept_ = arrays["coef"], arrays["intercept"]


def load_data(partition: int, partitions: int) -> tuple[tuple, tuple]:
    """A client's share of the digits: four fifths to train with, the rest to test with."""
    images, labels = load_digits(return_X_y=True)
    own, classes = images[partition::partitions] / 16, labels[partition::partitions]
    cut = int(0.8 * len(own))
    return (own[:cut], classes[:cut]), (own[cut:], classes[cut:])
