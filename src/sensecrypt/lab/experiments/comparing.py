"""Comparisons of several methods in one scenario, for items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sensecrypt.lab.compare.comparison import compare
from sensecrypt.lab.compare.scenarios import scenario_settings
from sensecrypt.lab.experiments.item import Spec
from sensecrypt.methods import parse_methods

_SHARED = ("rounds", "local_epochs", "clients", "ratio", "seed")


def run_settings(spec: Spec, **more: Any) -> dict[str, Any]:
    """The settings of runs: the shared ones among an item's settings, and more."""
    return {key: spec[key] for key in _SHARED if key in spec} | more


def compared(
    scenario: str,
    dataset: str,
    methods: Iterable[str],
    settings: Mapping[str, Any],
    folder: Path,
    *,
    preset: str = "default",
    crypto: str = "auto",
) -> dict[str, Any]:
    """The report of a comparison, which continues if it was interrupted.

    `methods` and `crypto` are as in `sensecrypt compare --policies … --crypto …`; `settings` are of all methods, and
    `preset` of those that name none.
    """
    chosen = parse_methods(",".join(methods), preset)
    whole = scenario_settings(scenario, dataset, dict(settings))
    return compare(scenario, chosen, whole, folder, crypto=crypto, resume=True)
