"""`sensecrypt doctor`: what is installed, what is missing, and whether the cryptography works on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import click
from rich.console import Console
from rich.table import Table

from sensecrypt._version import __version__
from sensecrypt.data.datasets import DATASETS, FOLDER_VARIABLE, data_folder, is_there

EXTRAS = {  # what each brings: for whom, and the modules that must be there
    "torch": ("training", ("torch",)),
    "ckks": ("CKKS", ("tenseal",)),
    "dkms": ("the key service", ("fastapi", "uvicorn", "httpx")),
    "flower": ("fleets on Flower", ("flwr", "torch", "httpx")),
    "report": ("pages of runs", ("jinja2", "vl_convert")),
    "lab": ("benchmarks and figures", ("phe", "paillier", "matplotlib")),
}
CHECK_SECONDS = 5.0
_PACKAGES = ("numpy", "gmpy2", "torch", "flwr")
_VALUES = [3, -5, 2**20, -(2**20)]

Verdict = Literal["ok", "missing", "failed"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: it is.
        verdict: how it stands; what is `missing` is not needed by everybody.
        found: what was seen.
        todo: what to do about it, if anything.
    """

    what: str
    verdict: Verdict
    found: str
    todo: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def doctor(as_json: bool) -> None:
    """Look at this installation: versions, extras, data sets, cores, and a check of the cryptography.

    Exit code 1 if something that everybody needs does not work.
    """
    findings = [_versions(), _cores(), *_extras(), *_datasets(), check_crypto()]
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}))
    else:
        _show(findings)
    if any(finding.verdict == "failed" for finding in findings):
        raise SystemExit(1)


def check_crypto(seconds: float = CHECK_SECONDS) -> Finding:
    """A fresh 2048-bit key pair; sums of ciphertexts against sums of values, for so many seconds at most."""
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
    return Finding(what, "ok", f"2048-bit key pair in {made:.1f} s; {rounds} sums right, {each:.1f} ms each")


def _versions() -> Finding:
    told = [f"Python {platform.python_version()}", *(f"{name} {_version(name)}" for name in _PACKAGES)]
    return Finding(f"sensecrypt {__version__}", "ok", ", ".join(told))


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
    for extra, (purpose, modules) in EXTRAS.items():
        absent = [module for module in modules if importlib.util.find_spec(module) is None]
        if absent:
            todo = f"pip install 'sensecrypt[{extra}]'"
            findings.append(Finding(f"extra {extra}", "missing", f"{purpose}: without {', '.join(absent)}", todo))
        else:
            findings.append(Finding(f"extra {extra}", "ok", purpose))
    return findings


def _datasets() -> list[Finding]:
    place, findings = data_folder(), []
    for name in DATASETS:
        if is_there(name):
            found = "part of scikit-learn" if name == "digits" else str(place)
            findings.append(Finding(f"data {name}", "ok", found))
            continue
        todo = "downloaded at its first use"
        if os.environ.get(FOLDER_VARIABLE):
            todo = f"put the official files there, or unset {FOLDER_VARIABLE}"
        findings.append(Finding(f"data {name}", "missing", f"not in {place}", todo))
    return findings


def _show(findings: list[Finding]) -> None:
    marks = {"ok": "[green]ok[/]", "missing": "[yellow]missing[/]", "failed": "[bold red]failed[/]"}
    table = Table(box=None, pad_edge=False)
    for column in ("", "", "found", "to do"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        table.add_row(marks[finding.verdict], finding.what, finding.found, finding.todo)
    Console().print(table)
