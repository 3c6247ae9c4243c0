from __future__ import annotations

import pytest

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.experiments.catalogue import ITEMS
from sensecrypt.lab.experiments.item import Verdict
from sensecrypt.lab.experiments.saved import draw, judge, read_rows, write_rows
from sensecrypt.lab.experiments.specs import SCALES, read_spec
from tests.lab.experiments.toy import Counting, saved_toy

TOY = Counting().item


def test_the_same_rows_give_the_same_bytes_and_a_changed_row_does_not(tmp_path):
    write_rows(tmp_path, saved_toy())
    first = draw(tmp_path, TOY, read_rows(tmp_path)).read_bytes()
    assert draw(tmp_path, TOY, read_rows(tmp_path)).read_bytes() == first
    changed = saved_toy(rows=[{"value": 1, "square": 1.0}, {"value": 2, "square": 5.0}, {"value": 3, "square": 9.0}])
    assert draw(tmp_path, TOY, changed).read_bytes() != first
    assert judge(TOY, saved_toy())[0].outcome == "reproduced"
    assert judge(TOY, changed)[0].outcome == "not reproduced"


def test_no_verdict_without_a_run(tmp_path):
    with pytest.raises(InvalidInput, match="holds no rows"):
        read_rows(tmp_path / "toy")
    with pytest.raises(InvalidInput, match="has no rows"):
        judge(TOY, saved_toy(rows=[]))


def test_rows_that_lack_something_are_told(tmp_path):
    with pytest.raises(InvalidInput, match="rows that lack 'square'"):
        judge(TOY, saved_toy(rows=[{"value": 1}]))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "item": "x"}'])
def test_a_damaged_file_is_told(tmp_path, text):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(InvalidInput, match="is damaged"):
        read_rows(tmp_path)


def test_an_outcome_is_one_of_four():
    with pytest.raises(InvalidInput, match="outcome"):
        Verdict("a", "b", "roughly")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.id)
def test_every_item_has_settings_cells_and_data_at_both_scales(item, scale):
    settings = read_spec(item.id, scale, {}).settings
    cells = item.cells(settings)
    assert cells
    assert len({cell.name for cell in cells}) == len(cells)
    assert all(cell.seconds > 0 for cell in cells)
    assert all("/" not in cell.name for cell in cells)
    assert isinstance(list(item.datasets(settings)), list)
