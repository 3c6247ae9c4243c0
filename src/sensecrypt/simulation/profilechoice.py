"""Chooses the encryption profile for a run's devices: `profile = "auto"`.

A ciphertext costs computing time and bytes. Lattice schemes need little computing time. Packed Paillier has short
ciphertexts, so a small model wastes less of the last one. The best profile depends on model, processors and bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sensecrypt.config import AUTO, RunConfig, change
from sensecrypt.errors import InvalidInput
from sensecrypt.profiles import get_profile
from sensecrypt.simulation.calibration import measure_cost_model
from sensecrypt.simulation.clock import CostModel
from sensecrypt.types import Device

CANDIDATES = ("paillier-2048", "ring-2048", "ring-2048x4", "ring-2048x16")  # exact, with slots of 32 bits, and secure


@dataclass(frozen=True)
class ProfileChoice:
    """The chosen profile and the costs of all candidates.

    Attributes:
        profile: the name of the chosen profile.
        seconds: by profile, fastest first: the time in which the slowest device encrypts and sends a whole model and
            the servers add and decrypt it.
        parameters: the number of the model's parameters.
    """

    profile: str
    seconds: Mapping[str, float]
    parameters: int

    @property
    def why(self) -> str:
        """The reason for the choice, as a sentence."""
        costs = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in self.seconds.items())
        return (
            f"{self.profile} encrypts, sends, adds and decrypts all {self.parameters:,} parameters in the least time "
            f"on these devices: {costs}"
        )


def choose_profile(
    size: int, devices: Sequence[Device], cost_models: Mapping[str, CostModel], *, server_cpus: float
) -> ProfileChoice:
    """Return the profile with which a round that encrypts everything is shortest.

    Args:
        size: parameters of the model.
        devices: the clients' devices.
        cost_models: the cost model of each candidate profile.
        server_cpus: processors of aggregator and key server.
    """
    seconds = {}
    for name, cost in cost_models.items():
        profile = get_profile(name)
        blocks = -(-size // profile.slots)
        last = profile.row_bytes(size - (blocks - 1) * profile.slots)
        sent = (blocks - 1) * profile.ciphertext_bytes + last
        slowest = max(blocks * cost.encrypt / device.speed + sent / (device.bandwidth * 1e6) for device in devices)
        seconds[name] = slowest + blocks * (len(devices) * cost.add + cost.decrypt) / server_cpus
    ordered = dict(sorted(seconds.items(), key=lambda each: each[1]))
    return ProfileChoice(next(iter(ordered)), ordered, size)


def resolve_profile(config: RunConfig, size: int) -> tuple[RunConfig, str]:
    """Return the configuration with a profile instead of `auto`, and the reason; measures costs on this machine."""
    if config.encryption.profile != AUTO:
        return config, ""
    possible = {}
    for name in CANDIDATES:
        try:
            possible[name] = change(config, {"profile": name})
        except InvalidInput:  # the profile is not compatible with the other settings
            continue
    ahead = config.encryption.randomness == "ahead"
    shared = config.encryption.key_mode == "shared-key"
    cost_models = {name: measure_cost_model(name, shared_key=shared, ahead=ahead) for name in possible}
    found = choose_profile(size, config.devices(0), cost_models, server_cpus=config.machines.server_cpus)
    return possible[found.profile], found.why
