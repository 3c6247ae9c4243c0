"""What README and docs say to type works.

Every fenced block is of a kind that is checked here:

- `python` runs, the blocks of a page one after the other in one namespace; `>>>` must print what is shown.
- `sh`: every `sensecrypt` line is read by the real command line, and runs; `make` targets exist.
- `toml` is read; `diff` has lines of files in `examples/`.
- `text` is for looking at: no commands in it.

A block that does not run says why: `<!-- not run: … -->` above it. Commands and calls in running text are read as well.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from sensecrypt import federate
from sensecrypt.cli import main

ROOT = Path(__file__).parents[1]
TOP = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
KINDS = {"python", "sh", "toml", "diff", "text"}
QUICK = re.compile(r"sensecrypt (keys|pki|dkms init|dkms audit|reproduce --list|doctor|settings|--version)")
WHOLE = {"faq.md", "index.md"}  # pages whose commands run one after the other, the slow ones too
NOT_RUN = re.compile(r"<!-- not run: (.{20,}) -->\n+\Z")


class Block(NamedTuple):
    kind: str
    text: str
    runs: bool


def blocks(text: str) -> list[Block]:
    """The fenced blocks, in order."""
    parts = re.split(r"^```(.*)\n", text, flags=re.MULTILINE)  # text, kind, block, "" and so on
    return [
        Block(kind, block, NOT_RUN.search(before) is None)
        for before, kind, block in zip(parts[::4], parts[1::4], parts[2::4], strict=False)
    ]


def commands(block: str) -> list[str]:
    """Its lines without comments, continued ones joined."""
    lines = [re.split(r"\s#", line)[0].strip() for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line]


def prose(text: str) -> str:
    """All but the fenced blocks."""
    return "".join(re.split(r"^```.*\n", text, flags=re.MULTILINE)[::2])


def named(pages: list[Path]) -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


WITH = {
    kind: named([page for page in PAGES if any(b.kind == kind for b in blocks(page.read_text()))]) for kind in KINDS
}


@pytest.mark.parametrize("page", named(PAGES))
def test_every_block_is_of_a_kind_that_is_checked(page):
    for block in blocks(page.read_text()):
        assert block.kind in KINDS, block
        if block.kind == "text":
            assert not re.search(r"^(\$ )?(sensecrypt|make|pip) ", block.text, flags=re.MULTILINE), block


@pytest.mark.parametrize("page", WITH["python"])
def test_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, block in enumerate(block for block in blocks(page.read_text()) if block.kind == "python"):
        if ">>> " in block.text:
            test = doctest.DocTestParser().get_doctest(block.text, names, f"{page.name}, block {number}", None, None)
            found: list[str] = []
            assert not doctest.DocTestRunner().run(test, out=found.append, clear_globs=False).failed, "".join(found)
            names = test.globs
            continue
        code = compile(block.text, page.name, "exec")
        if block.runs:
            exec(code, names)  # noqa: S102  (our own page)


@pytest.mark.parametrize("page", WITH["sh"])
def test_commands_are_read_and_quick_ones_run(page, tmp_path):
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for block in blocks(page.read_text()):
        for command in commands(block.text) if block.kind == "sh" else []:
            first, *rest = shlex.split(command)
            if first == "sensecrypt":
                parse(rest)
                if block.runs and page.name not in WHOLE:
                    assert QUICK.match(command), f"{command}: runs nowhere; say why: <!-- not run: … -->"
                    shell(command, tmp_path)
            elif first == "make":
                assert set(rest) <= targets, command
            else:
                assert first in ("pip", "git", "cd", "python", "cp", "flwr"), command


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WHOLE))
def test_every_command_of_the_page_runs(name, tmp_path):
    shown = blocks((ROOT / "docs" / name).read_text())
    assert all(block.runs for block in shown)
    found = [each for block in shown if block.kind == "sh" for each in commands(block.text)]
    typed = [command for command in found if command.startswith("sensecrypt ")]
    assert len(typed) >= 3
    for command in typed:
        shell(command, tmp_path)
    assert list(tmp_path.rglob("report.html"))


@pytest.mark.parametrize("page", WITH["toml"])
def test_toml_is_read(page):
    for block in blocks(page.read_text()):
        if block.kind == "toml":
            assert tomllib.loads(block.text)


@pytest.mark.parametrize("page", WITH["diff"])
def test_diffs_are_those_of_the_examples(page):
    files = [path for path in (ROOT / "examples").rglob("*") if path.suffix in (".py", ".diff")]
    lines = {
        line.removeprefix("+").removeprefix("-").strip() for path in files for line in path.read_text().splitlines()
    }
    for block in blocks(page.read_text()):
        for line in block.text.splitlines() if block.kind == "diff" else []:
            if re.match(r"[+-](?![+-])", line):
                assert line[1:].strip() in lines, line


@pytest.mark.parametrize("page", named(PAGES))
def test_commands_and_calls_in_the_text_are_read(page):
    text = prose(page.read_text())
    for command in re.findall(r"`sensecrypt ([^`]+)`", text.replace("\n", " ")):
        with contextlib.suppress(
            click.MissingParameter, click.BadOptionUsage
        ):  # `sensecrypt run --set` names an option
            parse(shlex.split(command))
    for name in re.findall(r"`federate\([^`]*?(\w+)=", text):
        assert name in inspect.signature(federate).parameters, name


TOUR = re.findall(r"^\| `(sensecrypt [^`]+)` \|", (ROOT / "docs" / "commands.md").read_text(), flags=re.MULTILINE)


def test_the_tour_has_every_command():
    for command in TOUR:
        parse(shlex.split(command)[1:])
    assert isinstance(main, click.Group)
    shown = {command.split()[1] for command in TOUR}
    assert set(main.commands) - shown <= {"completion"}


@pytest.mark.slow
def test_what_is_quick_in_the_tour_runs(tmp_path):
    quick = [command for command in TOUR if QUICK.match(command)]
    assert len(quick) >= 8
    for command in quick:
        shell(command, tmp_path)


def test_a_wrong_option_would_be_noticed():
    for wrong in (
        ["run", "--sets", "rounds=3"],
        ["dkms", "serv"],
        ["run", "--set"],
        ["fleet", "upp", "…"],
        ["dkms", "audit", "--heads"],
    ):
        with pytest.raises(click.UsageError):
            parse(wrong)


FETCHED = re.compile(r"""(?:src|href)=["']?(?:https?:)?//[^"'\s>]+\.(?:js|css|woff2?)\b|src=["']?(?:https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_the_site_fetches_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) >= 30
    assert not [page for page in pages if FETCHED.search(page.read_text())]


@pytest.mark.slow
def test_every_page_is_in_the_navigation_and_decisions_come_last(site):
    text = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"[\w/-]+\.md", text[text.index("nav:") :])
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))
    first = next(number for number, page in enumerate(listed) if page.startswith("decisions/"))
    assert all(page.startswith("decisions/") for page in listed[first:])
    assert (site / "search" / "search_index.js").exists()  # what search reads from disk
    assert 'src="iframe-worker.js"' in (site / "index.html").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="no browser: apt-get install chromium")
def test_search_finds_pages_from_disk(site, tmp_path):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    address = f"{(site / 'index.html').as_uri()}?q=blinding"
    done = subprocess.run(
        [*command, "--virtual-time-budget=20000", "--dump-dom", address], capture_output=True, text=True, timeout=300
    )
    assert re.search(r"\d+ matching documents", done.stdout), done.stderr


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ('<script src="https://cdn.example/a.min.js"></script>', True),
        ('<script src="https://unpkg.example/iframe-worker/shim"></script>', True),
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
        tests = re.findall(r"`(tests/\S+\.py)`", bullet)
        assert tests, bullet
        assert not [path for path in tests if not (ROOT / path).is_file()], bullet


def test_a_sentence_without_a_test_would_be_noticed():
    text = "## A\n- one\n  two (`tests/test_docs.py`).\n### B\n\n- three\n\n## C\n- four\n"
    assert bullets_below(text, "A") == ["- one\n  two (`tests/test_docs.py`).", "- three"]


@pytest.mark.parametrize("page", named(PAGES))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose(page.read_text())):
        assert (page.parent / link).exists(), link


def parse(arguments: list[str]) -> None:
    """As the command line does, up to where the work would begin; what follows … or <…> is left to the reader."""
    left = [number for number, word in enumerate(arguments) if word == "…" or word.startswith("<")]
    if left:
        arguments = [*arguments[: left[0]], "--help"]
    command: click.Command = main
    parent = None
    while isinstance(command, click.Group) and arguments:
        parent = command.make_context(command.name, arguments, parent=parent)
        name, command, arguments = command.resolve_command(parent, [*parent._protected_args, *parent.args])
        assert name is not None
        assert command is not None
    try:
        command.make_context(command.name, arguments, parent=parent, resilient_parsing=not arguments)
    except click.exceptions.Exit:  # of --help, --version, or of a group alone
        assert not arguments or {"--help", "--version"} & set(arguments)


def shell(command: str, folder: Path) -> None:
    environment = {**os.environ, "SENSECRYPT_PASSPHRASE": "correct horse battery"}
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
