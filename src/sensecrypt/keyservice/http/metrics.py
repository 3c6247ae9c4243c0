"""Counters in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import defaultdict

_HELP = {
    "requests": ("counter", "Answers given, by status."),
    "refusals": ("counter", "Requests not granted, by code."),
    "tags": ("counter", "Tags taken."),
    "decryptions": ("counter", "Sums decrypted and verified."),
    "decryption_seconds": ("counter", "Time spent on decrypting them."),
    "models_handed_out": ("counter", "Models sent to clients."),
    "connections_dropped": ("counter", "Connections closed because there were too many."),
    "answers_given_up": ("counter", "Answers that peers did not read in time."),
    "releases_waiting": ("gauge", "Sums being decrypted or waiting for it."),
    "audit_lines": ("gauge", "Lines in the audit log."),
}


class Metrics:
    """Counts since the start."""

    def __init__(self) -> None:
        self._values: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._lock = threading.Lock()

    def count(self, name: str, amount: float = 1, *, label: str = "") -> None:
        """Add to a counter; `label` is like `code="busy"`."""
        with self._lock:
            self._values[name, label] += amount

    def text(self, *, audit_lines: int) -> str:
        """All counters in Prometheus' format."""
        with self._lock:
            values = {**self._values, ("audit_lines", ""): audit_lines}
        lines = []
        for name, (kind, meaning) in _HELP.items():
            full = f"sensecrypt_dkms_{name}" + ("_total" if kind == "counter" else "")
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
            found = {label: value for (each, label), value in values.items() if each == name} or {"": 0}
            lines += [f"{full}{{{label}}} {n:g}" if label else f"{full} {n:g}" for label, n in found.items()]
        return "\n".join(lines) + "\n"
