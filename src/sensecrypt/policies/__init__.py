"""Policies decide who encrypts what: one file per method; `tests/policies/test_contract.py` is their contract."""

from __future__ import annotations

from sensecrypt.errors import InvalidInput
from sensecrypt.policies import (
    fedml_he,
    full,
    high_sensitivity,
    low_sensitivity,
    maskcrypt,
    plaintext,
    random,
    sensecrypt,
)
from sensecrypt.policies.policy import Policy

POLICIES: dict[str, Policy] = {
    "plaintext": plaintext.POLICY,
    "full": full.POLICY,
    "maskcrypt": maskcrypt.POLICY,
    "maskcrypt_union": maskcrypt.UNION,
    "fedml_he": fedml_he.POLICY,
    "sensecrypt": sensecrypt.POLICY,
    "random": random.POLICY,
    "low_sensitivity": low_sensitivity.POLICY,
    "high_sensitivity": high_sensitivity.POLICY,
}


def get_policy(name: str) -> Policy:
    """Return the policy of that name."""
    if name not in POLICIES:
        raise InvalidInput("policy", f"is {name!r}", f"choose one of {', '.join(POLICIES)}")
    return POLICIES[name]
