from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sensecrypt.cli import main
from sensecrypt.errors import InvalidInput
from sensecrypt.report import write_report
from sensecrypt.report.comparison import comparison_page, read_comparison
from sensecrypt.report.render import render
from tests.report.test_page import EVIL, require_drawable, without_scripts


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    arguments = [
        "compare",
        "--policies",
        "plaintext,sensecrypt",
        "--scenario",
        "extreme",
        "--rounds",
        "2",
        "--out",
        str(out),
    ]
    small = ["--set", "profile=insecure-test", "--set", "workers=1", "--set", "local_epochs=1"]
    result = CliRunner().invoke(main, [*arguments, *small])
    assert result.exit_code == 0, result.output
    assert f"report: {out / 'report.html'}" in result.output
    return out


def test_methods_stand_side_by_side_with_links_to_their_runs(compared):
    page = comparison_page(read_comparison(compared), compared)
    assert {chart.name for chart in page.charts} == {"devices", "time", "accuracy", "traffic", "shares", "timeline"}
    require_drawable(page)
    html = (compared / "report.html").read_text()
    for name, address, _ in page.links:
        assert (compared / address).exists()
        assert f'<a href="{address}">{name}</a>' in html


def test_a_page_elsewhere_has_no_links(compared, tmp_path):
    html = write_report(compared, tmp_path / "new" / "page.html").read_text()
    assert "/report.html" not in html


def test_names_are_text(compared):
    report = read_comparison(compared)
    report["rows"][0]["name"] = report["dataset"] = EVIL
    assert "<img" not in without_scripts(render(comparison_page(report, compared)))


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2, "rows": []}', '{"version": 1, "rows": []}'])
def test_a_file_that_no_comparison_wrote(tmp_path, content):
    (tmp_path / "compare.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"compare\.json"):
        write_report(tmp_path)


def test_a_comparison_that_lacks_a_figure(compared, tmp_path):
    report = read_comparison(compared)
    del report["rows"][0]["bytes_up"]
    (tmp_path / "compare.json").write_text(json.dumps(report))
    with pytest.raises(InvalidInput, match="bytes_up"):
        write_report(tmp_path)
