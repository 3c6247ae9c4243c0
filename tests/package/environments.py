"""Environments with exactly what an installation of the wheel declares.

One is made by pip. The others link the packages that are installed here: those that an extra asks for, with all that
they ask for in turn, and no other; so a module that the extra does not declare cannot be imported.
"""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections import Counter
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def build(folder: Path) -> tuple[Path, Path]:
    """Source archive and wheel; the wheel is made from the archive, as hatchling does."""
    tools, made = folder / "tools", folder / "made"
    pip("install", "--no-compile", "--target", str(tools), *CONSTRAINTS, "hatchling")
    for kind in ("sdist", "wheel"):
        source = ROOT
        if kind == "wheel":
            [archive] = made.glob("*.tar.gz")
            shutil.unpack_archive(archive, folder, filter="data")
            source = folder / archive.name.removesuffix(".tar.gz")
        command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(made)]
        environment = {**os.environ, "PYTHONPATH": str(tools)}
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    [wheel] = made.glob("*.whl")
    return archive, wheel


def requirements(wheel: Path) -> list[Requirement]:
    """What the wheel's metadata asks for, with and without extras."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    return [Requirement(text) for text in metadata.get_all("Requires-Dist")]


def closure(wanted: list[Requirement], extra: str) -> dict[str, Distribution]:
    """The distributions that pip would install for these requirements, from those that are installed here."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()

    def follow(asked: list[Requirement], extra: str) -> None:
        for requirement in asked:
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(requirement.name)
            there = found.setdefault(name, distribution(name))
            assert requirement.specifier.contains(there.version, prereleases=True), (requirement, there.version)
            for each in ("", *requirement.extras):
                if (name, each) not in seen:
                    seen.add((name, each))
                    follow([Requirement(text) for text in there.requires or []], each)

    for each in {"", extra}:
        follow(wanted, each)
    return found


def installed(folder: Path, wheel: Path) -> Path:
    """An empty environment into which pip installs the wheel, as a user does; its Python."""
    python = empty(folder)
    pip("--python", str(python), "install", "--no-compile", *CONSTRAINTS, str(wheel))
    return python


@cache
def shared() -> frozenset[str]:
    """Folders of site-packages in which several of the installed distributions have files, such as `google`."""
    owners = Counter(top for each in distributions() for top in {file.parts[0] for file in each.files or []})
    return frozenset(top for top, count in owners.items() if count > 1)


def linked(folder: Path, wheel: Path, extra: str) -> Path:
    """An environment with the wheel, and links to what the extra asks for; its Python."""
    python = empty(folder)
    [packages] = folder.glob("lib/python*/site-packages")
    for each in closure(requirements(wheel), extra).values():
        files = each.files or []
        for file in {Path(*(file.parts if file.parts[0] in shared() else file.parts[:1])) for file in files}:
            if ".." not in file.parts and not (place := packages / file).exists():  # without scripts
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(Path(str(each.locate_file(file))).resolve())
    pip("--python", str(python), "install", "--no-compile", "--no-deps", "--no-index", str(wheel))
    return python


def empty(folder: Path) -> Path:
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"
