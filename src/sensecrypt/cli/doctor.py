"""`sensecrypt doctor`: what is installed, what is missing, and whether the cryptography works on this machine."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sensecrypt._version import __version__
from sensecrypt.data.datasets import DATASETS, FOLDER_VARIABLE, data_folder, is_there
from sensecrypt.extras import EXTRAS, missing_modules

CHECK_SECONDS = 5.0
_PACKAGES = ("numpy", "gmpy2", "torch", "flwr")
_VALUES = [3, -5, 2**20, -(2**20)]

Verdict = Literal["ok", "missing", "failed"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        what: was checked.
        verdict: `missing` is no error: not every user needs it.
        found: details.
        todo: how to change it, if that is possible.
    """

    what: str
    verdict: Verdict
    found: str
    todo: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def doctor(as_json: bool) -> None:
    """Check this installation: versions, extras, data sets, cores and the cryptography.

    The exit code is 1 if something that every user needs does not work.
    """
    findings = [_versions(), _cores(), *_extras(), *_datasets(), check_crypto()]
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}))
    else:
        _show(findings)
    if any(finding.verdict == "failed" for finding in findings):
        raise SystemExit(1)


def check_crypto(seconds: float = CHECK_SECONDS) -> Finding:
    """Compare sums of ciphertexts with sums of values under a new 2048-bit key, for at most `seconds`."""
    from sensecrypt.crypto.keys import generate_keypair

    what = "cryptography"
    try:
        start = time.perf_counter()
        public, secret = generate_keypair("paillier-2048")
        made = time.perf_counter() - start
        rounds, spent = 0, 0.0
        while spent < seconds / 2 and rounds < 100:
            start = time.perf_counter()
            total = public.add(public.encrypt(_VALUES), public.encrypt(_VALUES))
            right = secret.decrypt(total, count=len(_VALUES)).tolist() == [2 * value for value in _VALUES]
            spent += time.perf_counter() - start
            rounds += 1
            if not right:
                return Finding(what, "failed", "a sum came out wrong", "do not use this machine; report the processor")
    except (ArithmeticError, ImportError, MemoryError) as error:
        return Finding(what, "failed", f"{type(error).__name__}", "install again: pip install --force-reinstall gmpy2")
    each = 1e3 * spent / rounds
    return Finding(what, "ok", f"2048-bit key pair in {made:.1f} s; sums right: {rounds}, {each:.1f} ms each")


def _versions() -> Finding:
    versions = [f"Python {platform.python_version()}", *(f"{name} {_version(name)}" for name in _PACKAGES)]
    return Finding(f"sensecrypt {__version__}", "ok", ", ".join(versions))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("cores", "ok", f"{usable} usable, {platform.machine()}")


def _extras() -> list[Finding]:
    findings = []
    for extra, (purpose, _) in EXTRAS.items():
        if absent := missing_modules(extra):
            todo = f'pip install "sensecrypt[{extra}]"'
            findings.append(Finding(f"extra {extra}", "missing", f"{purpose}: without {', '.join(absent)}", todo))
        else:
            findings.append(Finding(f"extra {extra}", "ok", purpose))
    return findings


def _datasets() -> list[Finding]:
    place, findings = data_folder(), []
    get = "downloaded at its first use"
    if os.environ.get(FOLDER_VARIABLE):
        get = f"put the official files there, or unset {FOLDER_VARIABLE}"
    elif not _writable(place):
        get = f"the folder cannot be written: set {FOLDER_VARIABLE} to one with the official files"
    for name in DATASETS:
        if is_there(name):
            found = "part of scikit-learn" if name == "digits" else str(place)
            findings.append(Finding(f"data {name}", "ok", found))
            continue
        findings.append(Finding(f"data {name}", "missing", f"not in {place}", get))
    return findings


def _writable(folder: Path) -> bool:
    """Whether files can be written there, or the folder can be made."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def _show(findings: list[Finding]) -> None:
    marks = {"ok": "[green]ok[/]", "missing": "[yellow]missing[/]", "failed": "[bold red]failed[/]"}
    table = Table(box=None, pad_edge=False, show_header=False)
    for column in ("verdict", "what"):
        table.add_column(column, no_wrap=True)
    table.add_column("found", overflow="fold")
    for finding in findings:
        found = finding.found + (f"\n{finding.todo}" if finding.todo else "")
        table.add_row(marks[finding.verdict], escape(finding.what), escape(found))
    Console().print(table)
