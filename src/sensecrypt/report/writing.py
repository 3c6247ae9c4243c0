"""Writes the page of a folder to a file."""

from __future__ import annotations

from pathlib import Path

from sensecrypt.errors import InvalidInput
from sensecrypt.files import make_folder, write_whole
from sensecrypt.report.comparison import FILE, comparison_page, read_comparison, run_folders
from sensecrypt.report.figures import Page
from sensecrypt.report.folder import read_folder
from sensecrypt.report.render import render, require_extra
from sensecrypt.report.runpage import run_page

NAME = "report.html"


def folder_page(folder: Path, *, links: bool = True) -> Page:
    """The page of a run's folder, or of a comparison's.

    Args:
        folder: of a run or of a comparison.
        links: whether a comparison's page links to the pages of its runs.
    """
    if (folder / FILE).exists():
        return comparison_page(read_comparison(folder), folder, links=links)
    return run_page(read_folder(folder))


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the page of a folder, and the pages of a comparison's runs; returns the path.

    Args:
        folder: of a run or of a comparison.
        out: the file; None: report.html in the folder. In another folder, a comparison's page has no links to its runs.
    """
    require_extra()
    target = out or folder / NAME
    if target.is_dir():
        raise InvalidInput(str(target), "is a folder", "name a file, such as report.html")
    html = render(folder_page(folder, links=out is None))
    if out is None and (folder / FILE).exists():
        for place in run_folders(read_comparison(folder), folder).values():
            if place.is_dir():
                write_whole(place / NAME, render(run_page(read_folder(place))).encode())
    make_folder(target.parent)
    return write_whole(target, html.encode())
