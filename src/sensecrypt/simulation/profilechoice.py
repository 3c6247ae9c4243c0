"""Which profile suits a run's devices: `profile = "auto"`.

A ciphertext costs a device computing and bytes. Lattice schemes need little of the first, and packed Paillier fills its
short ciphertexts better with a model of few parameters; so it depends on model, processors and lines.
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
    """A profile, and what it and the others cost.

    Attributes:
        profile: its name.
        seconds: that the slowest device needs to encrypt and send a whole model, and the servers to add and decrypt
            it, by profile; least first.
        parameters: of the model.
    """

    profile: str
    seconds: Mapping[str, float]
    parameters: int

    @property
    def why(self) -> str:
        """In words."""
        costs = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in self.seconds.items())
        return (
            f"{self.profile} encrypts, sends, adds and decrypts all {self.parameters:,} parameters in the least time "
            f"on these devices: {costs}"
        )


def choose_profile(
    size: int, devices: Sequence[Device], cost_models: Mapping[str, CostModel], *, server_cpus: float
) -> ProfileChoice:
    """The profile with which a round that encrypts everything is shortest.

    Args:
        size: parameters of the model.
        devices: of the clients.
        cost_models: of each profile that can be chosen.
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
    """The configuration with a profile in the place of `auto`, and why this one; costs are measured here and now."""
    if config.encryption.profile != AUTO:
        return config, ""
    possible = {}
    for name in CANDIDATES:
        try:
            possible[name] = change(config, {"profile": name})
        except InvalidInput:  # it does not go with the other settings
            continue
    ahead = config.encryption.randomness == "ahead"
    shared = config.encryption.key_mode == "shared-key"
    cost_models = {name: measure_cost_model(name, shared_key=shared, ahead=ahead) for name in possible}
    found = choose_profile(size, config.devices(0), cost_models, server_cpus=config.machines.server_cpus)
    return possible[found.profile], found.why
