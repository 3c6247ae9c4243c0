"""Names of runs and certificates, which are parts of addresses and file names."""

from __future__ import annotations

import re

from sensecrypt.errors import InvalidInput

PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
NAME = re.compile(PATTERN)


def check_name(argument: str, name: str) -> str:
    """`name`, if the key service accepts it."""
    if not NAME.fullmatch(name):
        fix = "use up to 63 letters, digits, dots, dashes and underscores, a letter or digit first"
        raise InvalidInput(argument, f"is {name!r}", fix)
    return name
