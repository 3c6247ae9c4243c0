"""Selective homomorphic encryption for cross-device federated learning, fitted to each device.

The names below are the public interface. Each is imported on first use, so that a program that uses one part (for
example the aggregator) does not load another (the secret keys).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sensecrypt._version import __version__

if TYPE_CHECKING:
    from sensecrypt.algo.budget import deadline_budgets as deadline_budgets
    from sensecrypt.algo.budget import encryption_budgets as encryption_budgets
    from sensecrypt.algo.clustering import cluster_clients as cluster_clients
    from sensecrypt.algo.dp import dp_noise as dp_noise
    from sensecrypt.algo.dp import gaussian_sigma as gaussian_sigma
    from sensecrypt.algo.leakage import mutual_information as mutual_information
    from sensecrypt.algo.leakage import mutual_information_curve as mutual_information_curve
    from sensecrypt.algo.selection import select as select
    from sensecrypt.algo.sensitivity import sensitivity as sensitivity
    from sensecrypt.algo.sketching import sketch as sketch
    from sensecrypt.crypto.encoding import FixedPoint as FixedPoint
    from sensecrypt.crypto.keys import generate_keypair as generate_keypair
    from sensecrypt.crypto.paillier.public import PublicKey as PublicKey
    from sensecrypt.crypto.paillier.randomizers import RandomizerPool as RandomizerPool
    from sensecrypt.crypto.paillier.secret import SecretKey as SecretKey
    from sensecrypt.errors import InfeasibleSelection as InfeasibleSelection
    from sensecrypt.errors import InvalidCiphertext as InvalidCiphertext
    from sensecrypt.errors import InvalidInput as InvalidInput
    from sensecrypt.errors import InvalidKey as InvalidKey
    from sensecrypt.errors import KeyFileError as KeyFileError
    from sensecrypt.errors import MaskMismatch as MaskMismatch
    from sensecrypt.errors import MissingExtra as MissingExtra
    from sensecrypt.errors import SenseCryptError as SenseCryptError
    from sensecrypt.errors import ValueDoesNotFit as ValueDoesNotFit
    from sensecrypt.lab.compare.advice import advise as advise
    from sensecrypt.profiles import PROFILES as PROFILES
    from sensecrypt.profiles import Profile as Profile
    from sensecrypt.transports.local.federate import federate as federate
    from sensecrypt.types import Clusters as Clusters
    from sensecrypt.types import Device as Device
    from sensecrypt.types import Mask as Mask
    from sensecrypt.types import Selection as Selection

_HOME = {
    "PROFILES": "profiles",
    "Clusters": "types",
    "Device": "types",
    "FixedPoint": "crypto.encoding",
    "InfeasibleSelection": "errors",
    "InvalidCiphertext": "errors",
    "InvalidInput": "errors",
    "InvalidKey": "errors",
    "KeyFileError": "errors",
    "Mask": "types",
    "MaskMismatch": "errors",
    "MissingExtra": "errors",
    "RandomizerPool": "crypto.paillier.randomizers",
    "Profile": "profiles",
    "PublicKey": "crypto.paillier.public",
    "SecretKey": "crypto.paillier.secret",
    "Selection": "types",
    "SenseCryptError": "errors",
    "ValueDoesNotFit": "errors",
    "advise": "lab.compare.advice",
    "cluster_clients": "algo.clustering",
    "dp_noise": "algo.dp",
    "deadline_budgets": "algo.budget",
    "encryption_budgets": "algo.budget",
    "federate": "transports.local.federate",
    "gaussian_sigma": "algo.dp",
    "generate_keypair": "crypto.keys",
    "mutual_information": "algo.leakage",
    "mutual_information_curve": "algo.leakage",
    "select": "algo.selection",
    "sensitivity": "algo.sensitivity",
    "sketch": "algo.sketching",
}

_NEEDS = {"advise": "lab", "federate": "torch"}  # extras

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sensecrypt' has no attribute {name!r}")
    if name in _NEEDS:
        from sensecrypt.extras import require

        require(name, _NEEDS[name])
    value = getattr(import_module(f"sensecrypt.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
