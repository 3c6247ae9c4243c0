"""The names that others rely on, and what importing them loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sensecrypt

NAMES = {
    "Clusters",
    "Device",
    "FixedPoint",
    "InfeasibleSelection",
    "InvalidCiphertext",
    "InvalidInput",
    "InvalidKey",
    "KeyFileError",
    "Mask",
    "MaskMismatch",
    "MissingExtra",
    "RandomizerPool",
    "PROFILES",
    "Profile",
    "PublicKey",
    "SecretKey",
    "Selection",
    "SenseCryptError",
    "ValueDoesNotFit",
    "__version__",
    "advise",
    "cluster_clients",
    "dp_noise",
    "deadline_budgets",
    "encryption_budgets",
    "federate",
    "gaussian_sigma",
    "generate_keypair",
    "mutual_information",
    "mutual_information_curve",
    "select",
    "sensitivity",
    "sketch",
}


def test_exactly_these_names_are_public():
    assert set(sensecrypt.__all__) == NAMES
    assert set(dir(sensecrypt)) == NAMES
    assert all(getattr(sensecrypt, name) is not None for name in NAMES)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="decrypt_everything"):
        _ = sensecrypt.decrypt_everything


def test_importing_the_package_loads_none_of_its_parts():
    code = "import sys, sensecrypt; print(*sorted(m for m in sys.modules if m.startswith('sensecrypt.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["sensecrypt._version"]
