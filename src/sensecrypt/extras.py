"""The package's extras: the purpose of each, and the modules that it installs."""

from __future__ import annotations

import importlib.util

from sensecrypt.errors import MissingExtra

EXTRAS = {  # purpose, and required modules
    "torch": ("training on this machine", ("torch",)),
    "flower": ("clients and servers on Flower", ("flwr", "httpx")),
    "flower-simulation": ("simulated Flower apps", ("flwr", "httpx", "ray")),
    "dkms": ("the key service", ("fastapi", "uvicorn", "httpx")),
    "lab": ("attacks, comparisons, benchmarks, the paper", ("torch", "phe", "paillier", "matplotlib")),
    "report": ("pages of runs", ("jinja2", "vl_convert")),
    "ckks": ("encryption with CKKS", ("tenseal",)),
}


def missing_modules(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra][1] if importlib.util.find_spec(module) is None]


def require(feature: str, *extras: str) -> None:
    """Raise `MissingExtra` unless all modules of these extras are installed."""
    absent = [extra for extra in extras if missing_modules(extra)]
    if absent:
        raise MissingExtra(feature, *absent)
