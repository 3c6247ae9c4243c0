from __future__ import annotations

import json

import pytest

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.experiments.measuring import measure, measured_already
from sensecrypt.lab.experiments.saved import read_rows
from sensecrypt.lab.experiments.specs import Scaled
from tests.lab.experiments.toy import SCALED, Counting


def test_rows_are_kept_with_their_settings(tmp_path):
    told = []
    saved = measure(Counting().item, SCALED, tmp_path / "toy", on_cell=lambda name, done: told.append((name, done)))
    assert [row["square"] for row in saved.rows] == [1.0, 4.0, 9.0]
    assert [row["nothing"] for row in saved.rows] == [None] * 3  # JSON has no NaN
    assert (saved.scale, saved.settings, saved.differs) == ("quick", SCALED.settings, ["smaller"])
    assert saved.machine["cores"].isdigit()
    assert told == [("value-1", 0.0), ("value-2", 1.5), ("value-3", 3.0)]
    assert read_rows(tmp_path / "toy") == saved
    assert sorted(path.name for path in (tmp_path / "toy").iterdir()) == ["rows.csv", "rows.json"]
    assert (tmp_path / "toy" / "rows.csv").read_text().splitlines()[:2] == ["value,square,nothing", "1,1.0,"]


def test_what_was_interrupted_goes_on_where_it_stopped(tmp_path):
    first, second = Counting(fail_at=3), Counting()
    with pytest.raises(KeyboardInterrupt):
        measure(first.item, SCALED, tmp_path)
    assert first.asked == [1, 2, 3]
    assert measured_already(tmp_path, SCALED) is None
    saved = measure(second.item, SCALED, tmp_path)
    assert second.asked == [3]
    assert [row["value"] for row in saved.rows] == [1, 2, 3]


def test_an_interrupted_cell_still_has_its_files(tmp_path):
    toy = Counting(fail_at=1)
    with pytest.raises(KeyboardInterrupt):
        measure(toy.item, SCALED, tmp_path)
    [folder] = (tmp_path / "unfinished").glob("*/value-1")
    (folder / "half").write_text("done")
    seen = []
    toy.fail_at = None
    inner = toy.cell

    def cell(value):
        made = inner(value)

        def measuring(folder):
            seen.append(sorted(path.name for path in folder.iterdir()))
            return made.measure(folder)

        return type(made)(made.name, made.seconds, measuring)

    toy.cell = cell
    measure(toy.item, SCALED, tmp_path)
    assert seen[0] == ["half"]


def test_other_settings_are_measured_on_their_own(tmp_path):
    other = Scaled("quick", {**SCALED.settings, "values": [5]}, ())
    with pytest.raises(KeyboardInterrupt):
        measure(Counting(fail_at=2).item, SCALED, tmp_path)
    assert [row["value"] for row in measure(Counting().item, other, tmp_path).rows] == [5]
    assert measured_already(tmp_path, SCALED) is None
    assert measured_already(tmp_path, other) is not None


def test_settings_without_cells_are_refused(tmp_path):
    for values in ([], [1, 1]):
        with pytest.raises(InvalidInput, match="no cells, or two with one name"):
            measure(Counting().item, Scaled("quick", {"values": values}, ()), tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="choose another --out"):
        measure(Counting().item, SCALED, tmp_path / "file")


def test_rows_of_another_version_are_refused(tmp_path):
    measure(Counting().item, SCALED, tmp_path)
    document = json.loads((tmp_path / "rows.json").read_text()) | {"version": 99}
    (tmp_path / "rows.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="version 99"):
        measured_already(tmp_path, SCALED)
