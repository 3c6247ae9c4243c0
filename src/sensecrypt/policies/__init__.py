"""Who encrypts what: one file a method. A policy is a function from a `Situation` to a `Choice`."""

from __future__ import annotations

from collections.abc import Callable

from sensecrypt.errors import InvalidInput
from sensecrypt.policies import full, plaintext, sensecrypt
from sensecrypt.policies.situation import Choice, Situation

Policy = Callable[[Situation], Choice]

POLICIES: dict[str, Policy] = {
    "plaintext": plaintext.choose,
    "full": full.choose,
    "sensecrypt": sensecrypt.choose,
}


def get_policy(name: str) -> Policy:
    """The policy of that name."""
    if name not in POLICIES:
        raise InvalidInput("policy", f"is {name!r}", f"choose one of {', '.join(POLICIES)}")
    return POLICIES[name]
