"""The wheel in environments with one extra each: every command runs, or says in one line what to install."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import click
import pytest
from packaging.utils import canonicalize_name

from sensecrypt._version import __version__
from sensecrypt.cli import main
from sensecrypt.extras import EXTRAS
from tests.package.environments import ROOT, build, closure, installed, linked, requirements

pytestmark = pytest.mark.slow

EXTRA_OF = ("base", "torch", "flower", "dkms", "lab", "report")
INCLUDED = {"lab": {"lab", "torch"}, "flower": {"flower", "dkms"}}  # with the extras whose packages an extra brings
SMALL = "--set rounds=1 --set clients=3 --set partition=iid"
PKI = "--ca pki/ca.crt --certificate pki/dkms.crt --key pki/dkms.key"
ADMIN = "--url https://127.0.0.1:1 --run first --ca pki/ca.crt --certificate pki/absent.crt --key pki/absent.key"
IMAGES = "--model digits-mlp --dataset digits --batch 1 --attacks dlg --seeds 1 --effort 1 --workers 1 --pictures a.png"

STARTS = 2.0  # processor seconds after which a long command that has not failed is ended

# What is typed, the extras that it needs, and what ends it (`inside.py`). In this order: some
# lines make files that later ones read.
LINES: tuple[tuple[str, set[str], str | float | None], ...] = (
    ("sensecrypt --version", set(), None),
    ("sensecrypt doctor", set(), None),
    ("sensecrypt completion bash", set(), None),
    ("sensecrypt settings", set(), None),
    ("sensecrypt keys generate --profile ring-2048 --out key.json", set(), None),
    ("sensecrypt keys generate --profile ckks-8192 --out ckks.json", {"ckks"}, None),
    ("sensecrypt keys public key.json --out public.json", set(), None),
    ("sensecrypt keys show public.json", set(), None),
    ("sensecrypt pki init --out pki", set(), None),
    ("sensecrypt pki issue --pki pki --role server --name dkms --host localhost", set(), None),
    ("sensecrypt dkms init --folder dkms", set(), None),
    ("sensecrypt dkms audit --folder dkms", set(), None),
    (f"sensecrypt dkms serve --folder dkms {PKI} --port 0 --workers 1", {"dkms"}, "Listening"),
    ("sensecrypt bench selection", set(), STARTS),
    ("sensecrypt bench clustering", set(), STARTS),
    ("sensecrypt bench clustering --real digits --sizes 20", {"torch"}, STARTS),
    ("sensecrypt bench groups --runs 1", set(), None),
    ("sensecrypt bench dkms --parameters 100 --clients 3 --workers 1 --repeats 1", {"dkms"}, STARTS),
    ("sensecrypt report run", {"report"}, None),
    ("sensecrypt watch run --port 0", {"report"}, "Ctrl-C"),
    (f"sensecrypt run {SMALL} --out mine", {"torch"}, None),
    ("sensecrypt demo --out shown", {"lab"}, STARTS),
    ("sensecrypt advise", {"lab"}, STARTS),
    ("sensecrypt attack --model digits-mlp --dataset digits --share 0.2 --seeds 1 --workers 1", {"torch"}, STARTS),
    (f"sensecrypt attack {IMAGES}", {"lab"}, None),
    ("sensecrypt bench blinding", {"torch"}, STARTS),
    ("sensecrypt bench projections", {"torch"}, STARTS),
    ("sensecrypt bench protocol", {"torch"}, STARTS),
    ("sensecrypt bench sensitivity --model mlp --samples 10 --repeats 1", {"torch"}, STARTS),
    ("sensecrypt bench calibration", {"torch"}, STARTS),
    ("sensecrypt bench crypto --rows 1 --repeats 1", {"lab", "ckks"}, STARTS),
    ("sensecrypt compare --policies plaintext,sensecrypt --rounds 1 --out compared", {"lab"}, STARTS),
    ("sensecrypt reproduce --list", {"lab"}, None),
    ("sensecrypt bench flower", {"flower-simulation", "torch"}, None),
    ("sensecrypt fleet up --folder fleet", {"dkms", "flower", "torch"}, None),
    ("sensecrypt fleet run --folder fleet", {"dkms", "flower", "torch"}, None),
    ("from sensecrypt.flower import ClientApp, SenseCrypt, sensecrypt_mod", {"flower"}, None),
    ("from sensecrypt.transports.flower import server_app; server_app()", {"flower"}, None),
    (
        "import sensecrypt as s; [getattr(s, name) for name in s.__all__ if name not in ('advise', 'federate')]",
        set(),
        None,
    ),
    ("from sensecrypt import federate", {"torch"}, None),
    ("from sensecrypt import advise", {"lab"}, None),
)
CONNECTING = (f"sensecrypt dkms register {ADMIN} --size 3 --members names", f"sensecrypt dkms close {ADMIN}")


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished run, to make pages of."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    command = [sys.executable, "-m", "sensecrypt", "run", *SMALL.split(), "--no-report", "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def test_the_table_has_every_command():
    def leaves(command: click.Command, name: str) -> list[str]:
        if isinstance(command, click.Group):
            return [leaf for word, below in command.commands.items() for leaf in leaves(below, f"{name} {word}")]
        return [name]

    lines = [*(line for line, *_ in LINES), *CONNECTING]
    assert not [
        name for name in leaves(main, "sensecrypt") if not any(f"{line} ".startswith(f"{name} ") for line in lines)
    ]


def test_the_archives_hold_what_they_should(archives):
    source, wheel = archives
    assert source.name == f"sensecrypt-{__version__}.tar.gz"
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    others = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "sensecrypt" / "report").rglob("*.html")}
    assert modules | others | {"sensecrypt/py.typed"} <= names
    assert {f"sensecrypt/lab/experiments/specs/{path.name}" for path in (ROOT / "reproduce").glob("*.toml")} <= names
    assert {name.split("/")[0] for name in names} == {"sensecrypt", f"sensecrypt-{__version__}.dist-info"}
    with tarfile.open(source) as file:
        assert not [
            name
            for name in file.getnames()
            if re.search(r"/(site|results|\.venv|dist)/", name.replace("docs/results", ""))
        ]


@pytest.mark.parametrize("extra", EXTRA_OF)
def test_every_command_runs_or_says_what_to_install(extra, archives, finished, tmp_path):
    _, wheel = archives
    there = tmp_path / "environment"
    python = installed(there, wheel) if extra == "base" else linked(there, wheel, extra)
    declared = set(closure(requirements(wheel), extra))
    found = {
        canonicalize_name(each.name) for each in distributions(path=[str(*there.glob("lib/python*/site-packages"))])
    }
    assert found - {"sensecrypt"} == declared
    has = INCLUDED.get(extra, {extra})
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "names").write_text("a\nb\nc\n")
    typed = [(line, until if needs <= has else None) for line, needs, until in LINES]
    for (line, needs, until), done in zip(LINES, run(python, typed, tmp_path), strict=True):
        if not needs <= has:
            says_what_to_install(line, done, needs - has)
            continue
        assert done["code"] == 0 or done["stopped"], (line, done)
        assert not isinstance(until, str) or until in done["out"], (line, done)
        assert "Traceback" not in done["err"], (line, done["err"])
    for line, done in zip(CONNECTING, run(python, [(line, None) for line in CONNECTING], tmp_path), strict=True):
        if has & {"dkms", "flower"}:
            assert done["code"] == 2, done
            assert "absent.crt" in done["err"]
        else:
            says_what_to_install(line, done, {"dkms"})


def says_what_to_install(line: str, done: dict, missing: set[str]) -> None:
    assert done["code"] != 0, (line, done)
    # the harness ends its process at once, and Python may note semaphores that are left then
    said = [each for each in done["err"].strip().splitlines() if "resource_tracker" not in each]
    last = said[-1]
    asked = re.search(r'pip install "sensecrypt\[([\w,-]+)\]"', last)
    assert asked, (line, done)
    assert set(asked[1].split(",")) <= {part for extra in missing for part in INCLUDED.get(extra, {extra})}, (
        line,
        last,
    )
    if line.startswith("sensecrypt "):
        assert done["code"] == 2
        assert len(said) == 1, done["err"]


def run(python: Path, entries: list[tuple[str, str | None]], folder: Path) -> list[dict]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "OMP_NUM_THREADS": "1"}
    environment["SENSECRYPT_PASSPHRASE"] = "correct horse battery"
    done = subprocess.run(
        [python, Path(__file__).with_name("inside.py")],
        input=json.dumps(entries),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_extras_of_the_metadata_are_those_that_doctor_lists(archives):
    _, wheel = archives
    with zipfile.ZipFile(wheel) as file:
        [name] = [name for name in file.namelist() if name.endswith("METADATA")]
        extras = set(re.findall(r"^Provides-Extra: (.+)$", file.read(name).decode(), flags=re.MULTILINE))
    assert extras - {"dev", "docs"} == set(EXTRAS)
