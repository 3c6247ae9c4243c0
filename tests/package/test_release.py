"""Version and day of the release are the same wherever they are written."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from sensecrypt._version import __version__

ROOT = Path(__file__).parents[2]


def test_version_and_day_agree():
    version, day = re.findall(
        r"^## (\S+) \S (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE
    )[0]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert version == citation["version"] == __version__
    assert day == str(citation["date-released"])


def test_the_paper_is_cited_as_in_the_readme():
    paper = yaml.safe_load((ROOT / "CITATION.cff").read_text())["preferred-citation"]
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert paper["title"] in readme
    assert ", ".join(f"{each['given-names']} {each['family-names']}" for each in paper["authors"]) in readme
