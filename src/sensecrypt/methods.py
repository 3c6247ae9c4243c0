"""The methods of a comparison: each is a policy under a preset, with its own settings."""

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
        policy: the policy's name.
        preset: the preset that gives all other settings.
        settings: the method's own settings, above the preset's.
    """

    policy: str
    preset: str
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in tables and plots."""
        own = "".join(f", {key}={value}" for key, value in self.settings.items())
        return f"{self.policy} ({self.preset}{own})"

    @property
    def slug(self) -> str:
        """The name of the method's folder."""
        return re.sub(r"[^a-zA-Z0-9=.]+", "-", self.name).strip("-")

    @property
    def variant(self) -> tuple[str, ...]:
        """Preset and settings, without the policy."""
        return (self.preset, *(f"{key}={value}" for key, value in sorted(self.settings.items())))

    def stock(self, config: RunConfig) -> bool:
        """Return whether the run is timed with python-paillier's costs: only if it encrypts exactly like the paper."""
        chosen = config.encryption
        scalar = (chosen.profile, chosen.randomness) == ("paillier-2048-scalar", "fresh")
        return self.preset == "paper" and scalar and config.budgeting.budget == "paper"

    def configure(self, common: dict[str, Any], crypto: str) -> RunConfig:
        """Return the configuration of this method's run.

        Args:
            common: settings of the whole comparison.
            crypto: `real`, `calibrated`, or `auto`: calibrated for schemes with one value per ciphertext, which would
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
    """Return the methods in a comma-separated list of `policy[@preset][+key=value]…`.

    Args:
        text: the user's list.
        preset: the preset of methods that name none; for `full`, the paper's Baseline, it is always `paper`.
    """
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        head, *changes = item.split("+")
        policy, at, chosen = head.partition("@")
        get_policy(policy)
        if at and chosen not in PRESETS:
            raise InvalidInput("policies", f"has preset {chosen!r}", f"choose one of {', '.join(PRESETS)}")
        settings = {}
        for change in changes:
            key, equals, value = change.partition("=")
            if not equals:
                raise InvalidInput("policies", f"has {change!r}", "write policy@preset+key=value")
            settings[key] = value
        found.append(Method(policy, chosen or ("paper" if policy == BASELINE else preset), settings))
    names = [each.name for each in found]
    if not found or len(set(names)) != len(names):
        raise InvalidInput("policies", f"is {text!r}", "name at least one method, and each only once")
    return found
