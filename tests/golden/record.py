"""Writes golden.json: `python -m tests.golden.record` records everything again, with names only those configurations.

It reports which of them changed. Record on one platform: hashes of models are not portable, see test_golden.py.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.configurations import CONFIGURATIONS
from tests.golden.recording import plain, platform, record

_PATH = Path(__file__).parent / "golden.json"
_DEEPEST = 5  # the file, its runs, a run, what was recorded, a list of records: each record is one line


def main(names: list[str]) -> None:
    """Record the configurations of these names; none: all."""
    known = [each.name for each in CONFIGURATIONS]
    if unknown := set(names) - set(known):
        sys.exit(f"no configuration is called {', '.join(sorted(unknown))}; choose among {', '.join(known)}")
    here = platform()
    before: dict[str, Any] = {"platform": here, "runs": {}}
    if _PATH.exists():
        before = json.loads(_PATH.read_text())
    if names and here != before["platform"]:
        sys.exit("golden.json was recorded on another platform; record all configurations, or record there")
    runs: dict[str, Any] = {}
    for configuration in CONFIGURATIONS:
        old = before["runs"].get(configuration.name)
        if names and configuration.name not in names:
            runs |= {} if old is None else {configuration.name: old}
            continue
        with tempfile.TemporaryDirectory() as folder:
            new = {"configuration": plain(configuration), "recorded": record(configuration, Path(folder))}
        runs[configuration.name] = new
        change = "new" if old is None else "as before" if old == new else "changed"
        sys.stdout.write(f"{configuration.name}: {change}\n")
    _PATH.write_text(_lines({"platform": here, "runs": runs}) + "\n")


def _lines(value: Any, depth: int = 0) -> str:
    """JSON with one line for each record, so that differences can be reviewed."""
    nested = isinstance(value, (dict, list)) and any(isinstance(each, (dict, list)) for each in _values(value))
    if not nested or depth == _DEEPEST:
        return json.dumps(value, allow_nan=False)
    if isinstance(value, dict):
        inside = [f"{json.dumps(key)}: {_lines(each, depth + 1)}" for key, each in value.items()]
    else:
        inside = [_lines(each, depth + 1) for each in value]
    release, closing = "{}" if isinstance(value, dict) else "[]"
    indented = ",\n".join(" " * (depth + 1) + line for line in inside)
    return f"{release}\n{indented}\n{' ' * depth}{closing}"


def _values(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


if __name__ == "__main__":
    main(sys.argv[1:])
