from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.experiments import catalogue
from sensecrypt.lab.experiments.catalogue import ITEMS
from sensecrypt.lab.experiments.fidelity import write_fidelity
from sensecrypt.lab.experiments.fidelity_rows import preset_values, read_written
from sensecrypt.lab.experiments.item import Item, Verdict
from sensecrypt.lab.experiments.saved import write_rows
from tests.lab.experiments.toy import Counting, saved_toy

DOCS = Path(__file__).parents[3] / "docs"
TOY = Counting().item
SPEC = 'differs = ["another network"]\n[quick]\nvalues = [1, 2, 3]\ndiffers = ["smaller"]\n[full]\nvalues = [1]\n'
ROW = {"paper": '"Eq. 1"', "says": '"squares"', "item": '"toy"', "claim": '["are squares"]'}
BY_HAND = {
    "paper": '"Eq. 1"',
    "says": '"squares"',
    "code": '["algo.sensitivity:sensitivity"]',
    "runs": '"toy"',
    "verdict": '"same"',
}


@pytest.fixture(scope="module")
def written():
    return read_written(DOCS / "fidelity.toml")


def rows_of(*rows: dict[str, str], head: str = "") -> str:
    text = "\n\n".join("[[part.row]]\n" + "\n".join(f"{key} = {value}" for key, value in row.items()) for row in rows)
    return f'{head}\n[[part]]\ntitle = "A part"\n\n{text}\n'


def page(folder: Path, text: str, *items: Item, measured: bool = True, **changes: object) -> str:
    (folder / "specs").mkdir(exist_ok=True)
    for item in items or (TOY,):
        (folder / "specs" / f"{item.id}.toml").write_text(SPEC)
        if measured:
            saved = saved_toy(**{"item": item.id, "differs": ["another network", "smaller"], **changes})
            write_rows(folder / "results" / item.id, saved)
    (folder / "fidelity.toml").write_text(text)
    return write_fidelity(items or (TOY,), folder / "results", folder / "fidelity.md", specs=folder / "specs")


def judging(*says: tuple[str, str], id_: str = "toy", place: str = "Appendix Z") -> Item:
    def judge(_rows):
        return [Verdict(each, "measured", outcome) for each, outcome in says]

    return Item(id_, TOY.title, place, TOY.cells, TOY.draw, judge)


def test_the_published_page_is_what_rows_and_results_say():
    """Nobody types into docs/fidelity.md: `make docs` writes it."""
    text = write_fidelity(list(ITEMS.values()), DOCS / "results", DOCS / "fidelity.md")
    assert text == (DOCS / "fidelity.md").read_text()


def test_the_whole_paper_is_in_it(written):
    rows = written.rows
    assert len(rows) >= 100
    places = "; ".join(row.paper for row in rows)
    wanted = [f"Eq. {number}" for number in range(1, 12)]
    wanted += [f"Fig. {number}" for number in range(1, 20)]
    wanted += [f"Table {number}" for number in range(1, 5)]
    wanted += [f"Appendix {letter}" for letter in "ABCDEFGHIJKLMNOP"]
    text = places + "; " + "; ".join(part.title for part in written.parts)
    assert [each for each in wanted if not re.search(rf"{each}(?!\d)", text)] == []
    lines = " ".join(re.findall(r"Alg\. 1, lines? ([\d\u2013]+)", places))
    numbers = {number for low, high in _spans(lines) for number in range(low, high + 1)}
    assert numbers == set(range(1, 15))


def _spans(text: str) -> list[tuple[int, int]]:
    ends = [[int(end) for end in each.split("\u2013")] for each in text.split()]
    return [(each[0], each[-1]) for each in ends]


@pytest.mark.parametrize(
    "words",
    [
        *("CIFAR10, MNIST and FMNIST", "CIFAR100", "fully connected", "AlexNet", "ResNet-50", "LeNet-5", "PyTorch"),
        *("20 clients", "python-paillier", "key size 2048", "η_MI = 2.0", "C = 0.7, B = 1.3", "C = 0.5, B = 2"),
        *("4 categories of clients", "5 % of the data", "50 MBps and 32 CPUs", "50, 45, 40, 35, 30 MBps"),
        *("24, 16, 12, 10, 8 CPUs", "IID data", "4 categories of 5 clients", "consensus mask", "stock python-paillier"),
        *("without encryption", "30 iterations", "as large as the union", "local epochs, batch size, learning rate"),
    ],
)
def test_every_setting_of_the_paper_has_a_row(written, words):
    titles = ("Experimental settings",)
    assert any(words in row.says for part in written.parts if part.title in titles for row in part.rows)


def test_every_item_is_named(written):
    named = {name for row in written.rows for name in (row.item, row.runs)}
    text = (DOCS / "fidelity.md").read_text()
    assert [item for item in ITEMS if item not in named and f"results.md#{item})" not in text] == []


def test_no_row_differs_without_a_reason():
    text = (DOCS / "fidelity.md").read_text()
    assert "**differs**" in text
    # The reason stands behind it; or the row has several verdicts, and a link to their reasons at its end.
    bare = r"\*\*(?:differs|a reading|too little to tell)\*\*(?!: \S| \(\[|; .*\(\[\w+[^|]* \|$)"
    assert re.findall(bare, text, re.MULTILINE) == []


def test_what_the_paper_says_is_what_the_preset_has(written):
    shown = {name for row in written.rows for name in preset_values(row)}
    assert {"normalise", "gradient", "bins", "key_mode", "weighting", "clustering", "bandwidth", "beta"} <= shown


def test_a_claim_gets_the_verdict_of_its_item(tmp_path):
    text = page(tmp_path, rows_of(ROW))
    assert "| **reproduced** ([toy](results.md#toy)) |" in text
    assert "smaller: smaller ([toy](results.md#toy))" in text
    assert "1 rows: 1 reproduced." in text
    wrong = [{"value": 1, "square": 2.0}]
    assert "**not reproduced**" in page(tmp_path, rows_of(ROW), rows=wrong)


def test_values_of_settings_are_those_of_the_preset(tmp_path):
    text = page(tmp_path, rows_of({**BY_HAND, "settings": '["normalise", "profile.key_bits", "parameters.mlp"]'}))
    assert "`normalise = budget`; `profile.key_bits = 2048`; `parameters.mlp = 50,890`" in text
    text = page(tmp_path, rows_of({**BY_HAND, "scenario": '"system"', "dataset": '"cifar-10"', "values": "{C = 0.5}"}))
    assert "`C = 0.5`" in text


def test_an_item_of_which_nothing_is_measured_is_not_run(tmp_path):
    text = page(tmp_path, rows_of(ROW, BY_HAND, {**BY_HAND, "verdict": '"item"'}), measured=False)
    assert text.count("not run: `toy` is not measured yet") == 3
    assert "2 not run, 1 same" in text


def test_differences_are_the_items_own(tmp_path):
    row = {**BY_HAND, "verdict": '"item"'}
    assert "| smaller: smaller ([toy](results.md#toy)) | **differs**: another network |" in page(tmp_path, rows_of(row))
    text = page(tmp_path, rows_of(row, head='size_notes = ["network"]\nother_notes = ["smaller"]'))
    assert "| smaller: another network ([toy](results.md#toy)) | **differs**: smaller |" in text
    assert "| yes ([toy](results.md#toy)) |" in page(tmp_path, rows_of({**row, "ignore": '["smaller"]'}))


def test_settings_of_an_item_are_compared_with_the_papers(tmp_path):
    row = {**BY_HAND, "verdict": '"item"', "item_values": "{values = [1, 2, 3]}"}
    assert "| item: `values = 1, 2, 3` |" in page(tmp_path, rows_of(row))
    assert "| **same** |" in page(tmp_path, rows_of(row))
    text = page(tmp_path, rows_of({**row, "item_values": "{values = [4]}"}))
    assert "| **differs**: `values` is 1, 2, 3, the paper's 4 |" in text


def test_rows_of_earlier_settings_are_marked(tmp_path):
    assert "†)" not in page(tmp_path, rows_of(ROW))
    assert "†)" in page(tmp_path, rows_of(ROW), settings={"values": [7]})
    head = 'preset_since = "{}"\npreset_items = ["toy"]'
    assert "†)" in page(tmp_path, rows_of(ROW, head=head.format("2026-01-03")))
    assert "†)" not in page(tmp_path, rows_of(ROW, head=head.format("2026-01-02")))


def test_one_statement_about_several_networks_is_one_row(tmp_path):
    both = judging(("A, B: it falls", "reproduced"), ("C: it falls", "not reproduced"), ("(ours) it falls", "beyond"))
    text = page(tmp_path, rows_of({**ROW, "claim": '["it falls"]'}), both)
    assert "A, B: **reproduced**; C: **not reproduced**" in text
    assert "1 rows: 1 mixed." in text


def test_one_statement_about_several_methods_is_one_row(tmp_path):
    both = judging(("it falls (A)", "reproduced"), ("B: it falls (C)", "not reproduced"))
    text = page(tmp_path, rows_of({**ROW, "claim": '["it falls"]'}), both)
    assert "A: **reproduced**; B, C: **not reproduced**" in text


def test_what_no_row_places_is_listed(tmp_path):
    more = judging(
        ("squares are squares", "reproduced"), ("cubes are cubes", "not reproduced"), ("ours: more?", "beyond")
    )
    own = judging(("is it so?", "beyond"), id_="own", place="")
    text = page(tmp_path, rows_of(ROW), more, own)
    assert "## Judged, and not placed above" in text
    assert "| Appendix Z | cubes are cubes |" in text
    assert "| ours | is it so? |" in text
    assert "ours: more?" not in text


def test_a_claim_that_is_not_judged_yet_has_its_reason(tmp_path):
    row = {**ROW, "claim": '["cubes"]', "unjudged": '"nobody cubed"'}
    assert "**too little to tell**: nobody cubed" in page(tmp_path, rows_of(row))
    text = page(tmp_path, rows_of({**row, "item": '"cubes"'}))
    assert "not run: `cubes` is not measured yet | **too little to tell**: nobody cubed" in text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"code": '["algo.sensitivity:insensitivity"]'}, "insensitivity"),
        ({"code": '["algo.nothing"]'}, "algo.nothing"),
        ({"verdict": '"differs"'}, "without a reason"),
        ({"verdict": '"reading"'}, "without a reason"),
        ({"verdict": '"reproduced"'}, "has verdict 'reproduced'"),
        ({"settings": '["normalize"]'}, "normalize"),
        ({"settings": '["profile.bits"]'}, "profile.bits"),
        ({"values": "{C = 0.1}"}, "the paper's is 0.1"),
        ({"runs": '"tot"'}, "item 'tot'"),
        ({"runs": '""'}, "where it ran"),
        ({"not_run": '"too large"'}, "where it ran"),
        ({"code": "[]"}, "names no code"),
        ({"colour": '"blue"'}, "colour"),
        ({"says": '""'}, "lacks `says`"),
        ({"item_values": "{values = 1}"}, "item_values, and a verdict by hand"),
        ({"runs": '""', "not_run": '"x"', "verdict": '"item"'}, "names none"),
    ],
)
def test_a_bad_row_is_refused_by_name(tmp_path, change, problem):
    with pytest.raises(InvalidInput, match=re.escape(problem)) as error:
        page(tmp_path, rows_of({**BY_HAND, **change}))
    assert "Eq. 1" in str(error.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"claim": '["cubes"]'}, "no claim of toy"),
        ({"claim": "[]"}, "item and claim only"),
        ({"verdict": '"same"'}, "a verdict by hand"),
        ({"item": '"tot"'}, "item 'tot'"),
    ],
)
def test_a_verdict_is_left_to_the_item_that_judges(tmp_path, change, problem):
    with pytest.raises(InvalidInput, match=problem) as error:
        page(tmp_path, rows_of({**ROW, **change}))
    assert "Eq. 1" in str(error.value)


def test_a_claim_that_fits_two_statements_is_refused(tmp_path):
    two = judging(("it falls fast", "reproduced"), ("it falls slowly", "not reproduced"))
    with pytest.raises(InvalidInput, match="several claims of toy"):
        page(tmp_path, rows_of({**ROW, "claim": '["it falls"]'}), two)


def test_the_command_writes_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "ITEMS", {"toy": TOY})
    text = page(tmp_path, rows_of(ROW))
    places = ["--out", str(tmp_path / "results"), "--specs", str(tmp_path / "specs")]
    answer = CliRunner().invoke(main, ["reproduce", "--fidelity", str(tmp_path / "fidelity.md"), *places])
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "fidelity.md").read_text() == text
