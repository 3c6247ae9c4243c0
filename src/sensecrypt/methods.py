"""Who takes part in a comparison: a policy, under a preset, with settings of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from sensecrypt.config import AUTO, PRESETS, RunConfig, make_config
from sensecrypt.errors import InvalidInput
from sensecrypt.policies import get_policy
from sensecrypt.profiles import get_profile

BASELINE = "full"


@dataclass(frozen=True)
class Method:
    """One row of a comparison.

    Attributes:
        policy: the method.
        preset: what holds where nothing else is said.
        settings: its own.
    """

    policy: str
    preset: str
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As tables and plots call it."""
        own = "".join(f", {key}={value}" for key, value in self.settings.items())
        return f"{self.policy} ({self.preset}{own})"

    @property
    def slug(self) -> str:
        """As its folder is called."""
        return re.sub(r"[^a-zA-Z0-9=.]+", "-", self.name).strip("-")

    @property
    def variant(self) -> tuple[str, ...]:
        """Preset and settings, whatever the policy."""
        return (self.preset, *(f"{key}={value}" for key, value in sorted(self.settings.items())))

    def stock(self, config: RunConfig) -> bool:
        """Whether python-paillier's cost stands for its encryption: in the paper's way to encrypt, and no other."""
        chosen = config.encryption
        scalar = (chosen.profile, chosen.randomness) == ("paillier-2048-scalar", "fresh")
        return self.preset == "paper" and scalar and config.budgeting.budget == "paper"

    def configure(self, common: dict[str, Any], crypto: str) -> RunConfig:
        """The run of this method.

        Args:
            common: settings of the whole comparison.
            crypto: `real`, `calibrated`, or `auto`: calibrated for schemes with one value a ciphertext, which would
                take hours.
        """
        settings = {
            "clustering": "auto" if get_policy(self.policy).clusters else "none",
            **common,
            **self.settings,
            "policy": self.policy,
            "preset": self.preset,
        }
        if crypto == "auto":
            profile = make_config(settings).encryption.profile
            scalar = profile != AUTO and get_profile(profile).slots == 1
            crypto = "calibrated" if scalar and get_policy(self.policy).encrypts else "real"
        return make_config({**settings, "crypto": crypto})


def parse_methods(text: str, preset: str) -> list[Method]:
    """Methods from `policy[@preset][+key=value]…`, separated by commas.

    Args:
        text: what the user wrote.
        preset: for those who have none; `full`, the paper's Baseline, has `paper`.
    """
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        head, *changes = item.split("+")
        policy, at, chosen = head.partition("@")
        get_policy(policy)
        if at and chosen not in PRESETS:
            raise InvalidInput("policies", f"have preset {chosen!r}", f"choose one of {', '.join(PRESETS)}")
        settings = {}
        for change in changes:
            key, equals, value = change.partition("=")
            if not equals:
                raise InvalidInput("policies", f"have {change!r}", "write policy@preset+key=value")
            settings[key] = value
        found.append(Method(policy, chosen or ("paper" if policy == BASELINE else preset), settings))
    names = [each.name for each in found]
    if not found or len(set(names)) != len(names):
        raise InvalidInput("policies", f"are {text!r}", "name at least one, and each once")
    return found
