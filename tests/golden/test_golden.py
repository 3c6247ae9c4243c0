"""Runs give what they gave when golden.json was recorded: models, clusters, masks, message lengths, records.

Training rounds differently on another processor or with another BLAS, so bits of models are not portable. golden.json
therefore also holds a fingerprint of the platform, a hash of a small training run without any of our code:

    the fingerprint matches          everything is compared exactly, hashes of models and masks included
    the fingerprint does not match   hashes are not compared; floats, each model's norm, mean and first values among
                                     them, are compared within `_TOLERANCE`; so are counts and lengths, because masks
                                     may differ by a few blocks; everything else is compared exactly

What is measured (`recording.MEASURED`) or drawn (`recording.DRAWN`) is neither recorded nor compared. After a change
that is meant to change results, record again and review the difference of golden.json:

    python -m tests.golden.record [configuration …]
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.configurations import CONFIGURATIONS, Configuration
from tests.golden.recording import plain, platform, record

_GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
_TOLERANCE = 0.01  # a test set of 355 images: three of them are classified differently
_HASH = "sha256"  # how the keys of hashes end
_EXACT = {"labels", "round", "client", "cluster", "attempt", "size"}  # whole numbers that do not follow from rounding
_FEW = 3  # blocks, or parameters
_SHOWN = 20


@pytest.fixture(scope="module")
def same_platform() -> bool:
    return platform() == str(_GOLDEN["platform"])


def test_golden_json_holds_these_configurations() -> None:
    assert len({each.name for each in CONFIGURATIONS}) == len(CONFIGURATIONS)
    assert {each.name: plain(each) for each in CONFIGURATIONS} == {
        name: golden["configuration"] for name, golden in _GOLDEN["runs"].items()
    }, "record again: python -m tests.golden.record"


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda each: each.name)
def test_a_run_gives_what_was_recorded(configuration: Configuration, tmp_path: Path, same_platform: bool) -> None:
    found, golden = record(configuration, tmp_path), _GOLDEN["runs"][configuration.name]["recorded"]
    different = list(_differences("", golden, found, exact=same_platform))
    shown = "\n".join(different[:_SHOWN])
    assert not different, f"{len(different)} differences, recorded against found:\n{shown}"


def _differences(path: str, golden: Any, found: Any, *, exact: bool) -> Iterator[str]:
    """One line for each value that differs."""
    if isinstance(golden, dict) and isinstance(found, dict) and golden.keys() == found.keys():
        for key in golden:
            if exact or not key.endswith(_HASH):
                yield from _differences(f"{path}/{key}", golden[key], found[key], exact=exact or key in _EXACT)
    elif isinstance(golden, list) and isinstance(found, list) and len(golden) == len(found):
        for index, (one, other) in enumerate(zip(golden, found, strict=True)):
            yield from _differences(f"{path}/{index}", one, other, exact=exact)
    elif type(golden) is not type(found) or not _same(golden, found, exact=exact):
        yield f"{path}: {_short(golden)} against {_short(found)}"


def _same(golden: Any, found: Any, *, exact: bool) -> bool:
    if exact or type(golden) not in (int, float):
        return bool(golden == found)
    least = _FEW if isinstance(golden, int) else _TOLERANCE
    return math.isclose(golden, found, rel_tol=_TOLERANCE, abs_tol=least)


def _short(value: Any) -> str:
    """A value, of a dictionary its keys, of a list its length."""
    if isinstance(value, dict):
        return f"keys {', '.join(sorted(value))}"
    return f"{len(value)} entries" if isinstance(value, list) else repr(value)
