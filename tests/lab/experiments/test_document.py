from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.experiments import document
from sensecrypt.lab.experiments.catalogue import ITEMS
from sensecrypt.lab.experiments.document import write_document
from sensecrypt.lab.experiments.item import Verdict
from sensecrypt.lab.experiments.saved import write_rows
from tests.lab.experiments.toy import Counting, saved_toy

TOY = Counting().item


def test_every_verdict_figure_and_difference_is_in_it(tmp_path):
    results = tmp_path / "docs" / "results"
    write_rows(results / "toy", saved_toy())
    other = type(TOY)("other", "Another", "", TOY.cells, TOY.draw, TOY.judge)
    text = write_document([TOY, other], results, tmp_path / "docs" / "results.md")
    assert "![Squares](results/toy/figure.png)" in text
    assert (results / "toy" / "figure.png").exists()
    assert "| squares \\| are squares | 3 of them | **reproduced** |" in text
    assert "Differs from the paper: smaller." in text
    assert "sensecrypt reproduce toy --quick" in text
    assert "| [Squares](#toy) | Appendix Z | 1 |  |  |  |  |" in text
    assert "Not measured yet: `other`." in text
    assert "* cores 2" in text


def test_what_is_too_little_to_tell_is_counted_and_explained(tmp_path):
    write_rows(tmp_path / "toy", saved_toy())
    little = replace(TOY, judge=lambda _: [Verdict("squares", "one of them", "too little to tell")] * 2)
    text = write_document([little], tmp_path, tmp_path / "results.md")
    assert "| [Squares](#toy) | Appendix Z |  |  |  |  | 2 |" in text
    assert "| squares | one of them | **too little to tell** |" in text
    assert "*Too little to tell*: measured, but on" in text


def test_the_same_rows_give_the_same_text(tmp_path):
    write_rows(tmp_path / "toy", saved_toy())
    texts = {write_document([TOY], tmp_path, tmp_path / "results.md") for _ in range(2)}
    assert len(texts) == 1
    write_rows(tmp_path / "toy", saved_toy(rows=[{"value": 1, "square": 2.0}]))
    assert write_document([TOY], tmp_path, tmp_path / "results.md") not in texts


def test_nothing_measured_is_told(tmp_path):
    with pytest.raises(InvalidInput, match="holds no rows"):
        write_document([TOY], tmp_path, tmp_path / "results.md")


def test_the_published_document_is_what_the_saved_rows_say(tmp_path, monkeypatch):
    """Nobody types into docs/results.md: `make docs` writes it."""
    monkeypatch.setattr(document, "draw", lambda *_: None)
    folder = Path(__file__).parents[3] / "docs"
    shutil.copytree(folder / "results", tmp_path / "docs" / "results")
    text = write_document(list(ITEMS.values()), tmp_path / "docs" / "results", tmp_path / "docs" / "results.md")
    assert text == (folder / "results.md").read_text()
