"""Numbers formatted for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def percent(value: float | None) -> str:
    """A share as a percentage."""
    if value is None or math.isnan(value):
        return "unknown"
    digits = 0 if value in (0.0, 1.0) else 1
    return f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def seconds(value: float) -> str:
    """A duration with its unit."""
    if value < 1:
        return f"{1e3 * value:.3g}\N{NO-BREAK SPACE}ms"
    if value < 120:
        return f"{value:.3g}\N{NO-BREAK SPACE}s"
    return f"{value / 60:.3g}\N{NO-BREAK SPACE}min" if value < 7200 else f"{value / 3600:.3g}\N{NO-BREAK SPACE}h"


def megabytes(value: float) -> str:
    """A number of bytes with its unit."""
    if value < 1e5:
        return f"{value / 1e3:.3g}\N{NO-BREAK SPACE}kB"
    return f"{value / 1e6:.3g}\N{NO-BREAK SPACE}MB" if value < 1e9 else f"{value / 1e9:.3g}\N{NO-BREAK SPACE}GB"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, in the plural if need be."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def round_name(number: int) -> str:
    """The name of a round by its number in the records."""
    return "set-up" if number < 0 else str(number)


def noise_words(noise: Mapping[str, Any]) -> str:
    """The noise on the sketches for clustering, and its ε as local differential privacy."""
    worth = "more than 512" if noise["local_epsilon"] is None else f"{noise['local_epsilon']:.3g}"
    what = "the whole vector" if noise["protects"] == "vector" else "one sample"
    return (
        f"Sensitivities for clustering had noise: nominal ε {noise['epsilon']:g} for {what}, δ {noise['delta']:g}; as "
        f"local differential privacy of a client, ε is {worth}"
    )
