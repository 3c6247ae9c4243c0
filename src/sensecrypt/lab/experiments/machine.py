"""On what something was measured."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sensecrypt._version import __version__

_PACKAGES = ("torch", "numpy", "gmpy2", "phe", "tenseal", "matplotlib")


def machine() -> dict[str, str]:
    """Processors, memory and versions; nothing that names the machine or its user."""
    facts = {"processor": _processor(), "cores": str(os.cpu_count()), "memory": _memory(), "system": platform.system()}
    facts |= {"python": platform.python_version(), "sensecrypt": __version__}
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    return facts


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"
