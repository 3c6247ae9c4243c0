"""A run's settings as Flower carries them: keys `sensecrypt.…` of the run configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sensecrypt import checks
from sensecrypt.config import RunConfig, make_config, to_settings
from sensecrypt.errors import InvalidInput
from sensecrypt.keyservice.names import NAME

PREFIX = "sensecrypt."
SETTINGS = f"{PREFIX}settings."
ENROL_SECONDS, DEADLINE = 300.0, 3600.0


@dataclass(frozen=True)
class Settings:
    """The settings of a run, which the aggregator and all clients receive.

    Attributes:
        run: its name, as it is registered with the key service.
        config: as for a run on one machine.
        enrol_seconds: the time limit for clients to enrol before the first round.
        deadline: the time limit for the replies of a round, in seconds.
    """

    run: str
    config: RunConfig
    enrol_seconds: float
    deadline: float


def read_settings(run_config: Mapping[str, Any]) -> Settings:
    """The settings of a run; `InvalidInput` for what a fleet does not support."""
    given = {key.removeprefix(PREFIX): value for key, value in run_config.items() if key.startswith(PREFIX)}
    inner = {key.removeprefix("settings."): given.pop(key) for key in list(given) if key.startswith("settings.")}
    known = ("run", "enrol-seconds", "deadline")
    for key in given:
        if key not in known:
            fix = f"the keys are {', '.join(PREFIX + name for name in known)}, and {SETTINGS}… for a run's settings"
            raise InvalidInput(PREFIX + key, "is no key of a fleet's run", fix)
    run = given.get("run")
    if not isinstance(run, str) or not NAME.fullmatch(run):
        raise InvalidInput(f"{PREFIX}run", f"is {run!r}", "name the run as it is registered with the key service")
    config = make_config(inner)
    refuse_local_only(config)
    seconds = {
        key: checks.number(PREFIX + key, given.get(key, usual), low=0.0, open_low=True)
        for key, usual in (("enrol-seconds", ENROL_SECONDS), ("deadline", DEADLINE))
    }
    return Settings(run, config, seconds["enrol-seconds"], seconds["deadline"])


def refuse_local_only(config: RunConfig) -> None:
    """Raise for settings that only a run on one machine supports."""
    settings, by_jacobian = to_settings(config), config.policy.ranks_by == "jacobian"
    possible = {"key_mode": "dkms", "crypto": "real", "messages": "forget", "weighting": "client"}
    if by_jacobian:
        possible = {"layout": "prefix", **possible}
    for setting, only in possible.items():
        value = settings[setting]
        if value != only:
            instead = {"weighting": "set weighting=client", "key_mode": "set key_mode=dkms"}.get(
                setting, "leave it out"
            )
            fix = f"use sensecrypt run, or {instead} in a fleet"
            raise InvalidInput(setting, f"{value} is for one machine", fix)
