"""What runs and certificates may be called: a part of an address, and a file's name too."""

from __future__ import annotations

import re

from sensecrypt.errors import InvalidInput

PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
NAME = re.compile(PATTERN)


def check_name(argument: str, name: str) -> str:
    """A name that the key service takes."""
    if not NAME.fullmatch(name):
        fix = "use up to 63 letters, digits, dots, dashes and underscores, a letter or digit first"
        raise InvalidInput(argument, f"is {name!r}", fix)
    return name
