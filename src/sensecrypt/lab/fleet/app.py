"""The Flower app of a run: two modules of two lines, and a pyproject.toml with the run's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sensecrypt._version import __version__
from sensecrypt.config import RunConfig, to_settings
from sensecrypt.files import make_folder, write_whole
from sensecrypt.lab.fleet.making import quote

_MODULES = {
    "server_app.py": "from sensecrypt.transports.flower import server_app\n\napp = server_app()\n",
    "client_app.py": "from sensecrypt.transports.flower import client_app\n\napp = client_app()\n",
}


def write_app(folder: Path, config: RunConfig, *, run: str, seconds: Mapping[str, float]) -> Path:
    """Write an app that `flwr run` accepts; its folder.

    Args:
        folder: of the app.
        config: of the run.
        run: its name.
        seconds: time limits by their keys: `deadline`, `enrol-seconds`.
    """
    make_folder(folder)
    for name, text in _MODULES.items():
        write_whole(folder / name, text.encode())
    settings = "".join(f"{key} = {quote(_text(value))}\n" for key, value in to_settings(config).items())
    waits = "".join(f"{key} = {float(value)!r}\n" for key, value in seconds.items())
    pyproject = f"""\
[project]
name = "sensecrypt-run"
version = "{__version__}"
description = "A run of SenseCrypt."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "sensecrypt"

[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"

[tool.flwr.app.config.sensecrypt]
run = {quote(run)}
{waits}
[tool.flwr.app.config.sensecrypt.settings]
{settings}"""
    write_whole(folder / "pyproject.toml", pyproject.encode())
    return folder


def _text(value: Any) -> str:
    """A setting as `--set` takes it; Flower's configuration has no lists."""
    if isinstance(value, list):
        if not isinstance(value[0], list):
            return ",".join(str(number) for number in value)
        return "; ".join(",".join(str(number) for number in row) for row in value)
    return str(value)
