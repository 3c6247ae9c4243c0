"""What the README and the docs tell to type works.

Python blocks run as they stand. Of shell blocks, those of the quick start run as they stand; of the README's tour, what
is quick runs, and of the rest command, options and values are parsed as for real.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sensecrypt.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = ("index.md", "own-model.md", "flower.md")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of that language, in order."""
    parts = re.split(r"^```(.*)\n", text, flags=re.MULTILINE)  # text, language, block, "" and so on
    return [block for told, block in zip(parts[1::4], parts[2::4], strict=True) if told == language]


def commands(block: str) -> list[str]:
    lines = [re.split(r"\s#", line)[0].strip() for line in block.splitlines()]
    return [line for line in lines if line.startswith("sensecrypt ")]


TOUR = re.findall(r"^\| `(sensecrypt [^`]+)` \|", README, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_of_the_docs_run(page, tmp_path, monkeypatch):
    found = blocks((ROOT / "docs" / page).read_text(), "python")
    assert found
    monkeypatch.chdir(tmp_path)
    for block in found:
        exec(compile(block, page, "exec"), {"__name__": "__main__"})  # noqa: S102  (our own page)


@pytest.mark.slow
def test_the_quick_start_runs(tmp_path):
    found = [command for block in blocks((ROOT / "docs" / "index.md").read_text(), "sh") for command in commands(block)]
    assert len(found) == 3
    for command in found:
        shell(command, tmp_path)
    assert (tmp_path / "first" / "report.html").exists()


def test_the_tour_names_what_there_is():
    assert len(TOUR) > 20
    for command in TOUR:
        parse(shlex.split(command)[1:])


def test_a_wrong_option_would_be_noticed():
    with pytest.raises(click.UsageError):
        parse(["run", "--sets", "rounds=3"])
    with pytest.raises(click.UsageError):
        parse(["dkms", "serv"])


@pytest.mark.slow
def test_what_is_quick_in_the_tour_runs(tmp_path):
    quick = [
        command for command in TOUR if re.match(r"sensecrypt (keys|pki|dkms init|dkms audit|reproduce --list)", command)
    ]
    assert len(quick) == 8
    for command in quick:
        shell(command, tmp_path)


FETCHED = re.compile(r"""(?:src|href)=["']?(?:https?:)?//[^"'\s>]+\.(?:js|css|woff2?)\b""")


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = list((tmp_path / "site").glob("*.html"))
    assert len(pages) >= 10
    assert not [page for page in pages if FETCHED.search(page.read_text())]


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ('<script src="https://cdn.example/a.min.js"></script>', True),
        ('<link rel="stylesheet" href="//cdn.example/a.css?v=3">', True),
        ("<link href='http://cdn.example/a.woff2'>", True),
        ('<script src="assets/a.min.js"></script>', False),
        ('<a href="https://example.org/page.html">', False),
        ('<a href="https://www.jsdelivr.example/">', False),
    ],
)
def test_what_a_page_would_fetch_from_elsewhere_is_seen(tag, found):
    assert bool(FETCHED.search(tag)) == found


PROVEN = {"SECURITY.md": "What holds today", "docs/security.md": "What is proven"}


def bullets_below(text: str, heading: str) -> list[str]:
    """The list items of a section of second level, its subsections included."""
    [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^[-*] .*(?:\n  .*)*", section, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PROVEN)
def test_what_is_said_to_hold_names_a_test(page):
    found = bullets_below((ROOT / page).read_text(), PROVEN[page])
    assert len(found) >= 5
    for bullet in found:
        named = re.findall(r"`(tests/\S+\.py)`", bullet)
        assert named, bullet
        assert not [path for path in named if not (ROOT / path).is_file()], bullet


def test_a_sentence_without_a_test_would_be_noticed():
    text = "## A\n- one\n  two (`tests/test_docs.py`).\n### B\n\n- three\n\n## C\n- four\n"
    assert bullets_below(text, "A") == ["- one\n  two (`tests/test_docs.py`).", "- three"]


def parse(arguments: list[str]) -> None:
    """As the command line does, up to where the work would begin."""
    command: click.Command = main
    parent = None
    while isinstance(command, click.Group):
        parent = command.make_context(command.name, arguments, parent=parent)
        name, command, arguments = command.resolve_command(parent, [*parent._protected_args, *parent.args])
        assert name is not None
        assert command is not None
    command.make_context(command.name, arguments, parent=parent)


def shell(command: str, folder: Path) -> None:
    environment = {**os.environ, "SENSECRYPT_PASSPHRASE": "correct horse battery"}
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
