"""The README's Python runs and prints what it says."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_examples_print_what_they_say():
    result = doctest.testfile(str(Path(__file__).parents[1] / "README.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
