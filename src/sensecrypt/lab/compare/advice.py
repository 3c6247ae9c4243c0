"""Measures what protections cost on a fleet and what attackers find under each: for `advise` and `demo`.

The cost comes from a few rounds on the fleet's devices. The protection comes from attacks on synthetic clients that
encrypt as much as the fleet's weakest device did, by every adversary of the ladder.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from sensecrypt.config import make_config, to_settings
from sensecrypt.lab.assess.labels import label_rows
from sensecrypt.lab.assess.protection import Protection
from sensecrypt.lab.assess.setting import NAMES, PLAINTEXT, Setting, check_distribution
from sensecrypt.lab.compare.comparison import REPORT, compare
from sensecrypt.lab.compare.subject import Subject, own_subject
from sensecrypt.lab.compare.wording import recommendation
from sensecrypt.methods import parse_methods
from sensecrypt.models import find_head
from sensecrypt.runs.folder import RunFolder

_CLEAR = 0.1  # half-width of the confidence interval up to which a missing gain counts as none
_GAIN = 0.02  # of the labels; a smaller gain counts as none


@dataclass(frozen=True)
class Candidate:
    """A method that a user may choose.

    Attributes:
        name: as tables call it.
        method: as `sensecrypt compare --policies` takes it.
    """

    name: str
    method: str


PLAIN = Candidate("no protection", "plaintext")
PAPER = Candidate("selective (paper)", "sensecrypt@paper")
BASELINE = Candidate("everything (paper)", "full")
BLINDING = Candidate("blinding only", "plaintext+rest=blinded")
DEFAULT = Candidate("SenseCrypt", "sensecrypt")
PAILLIER = Candidate("SenseCrypt, Paillier", "sensecrypt+profile=paillier-2048")
CANDIDATES = (PLAIN, BASELINE, PAPER, BLINDING, PAILLIER, DEFAULT)
RECOMMENDED = (PAILLIER.name, DEFAULT.name)


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """The clients that are attacked.

    Attributes:
        samples: of each.
        seeds: how many clients.
        distribution: of their data: `iid`, or a number of classes.
        adversaries: who attacks.
    """

    samples: int = 30
    seeds: int = 10
    distribution: str = "3"
    adversaries: Sequence[str] = NAMES


@dataclass(frozen=True)
class Advice:
    """An answer.

    Attributes:
        text: the recommendation, with its reasons.
        report: everything that was measured: a comparison, with what attackers find in each row.
    """

    text: str
    report: dict[str, Any]

    def __str__(self) -> str:
        """The recommendation."""
        return self.text


def assess(
    candidates: Sequence[Candidate],
    subject: Subject,
    settings: Mapping[str, Any],
    folder: Path,
    *,
    attacked: Attacked,
    crypto: str = "calibrated",
    command: str = "",
    findings: Callable[[Sequence[Mapping[str, Any]]], list[str]] = lambda _: [],
    on_step: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Compare the candidates; each row gets what adversaries find. The report is also a file in `folder`.

    Args:
        candidates: what is compared, no protection first.
        subject: what is trained.
        settings: of every run.
        folder: where the runs and the report go.
        attacked: whose labels are looked for.
        crypto: `real`, `calibrated` or `auto`.
        command: that repeats it, for the report.
        findings: sentences about the rows, for the report.
        on_step: called with what is going on.
    """
    check_distribution(attacked.distribution, subject.classes, attacked.samples)
    find_head(subject.build(0), subject.classes)
    methods = parse_methods(",".join(each.method for each in candidates), "default")
    fleet = {key: value for key, value in to_settings(make_config(settings)).items() if key in _FLEET}
    names = {method.name: candidate.name for method, candidate in zip(methods, candidates, strict=True)}

    def on_round(method: str, done: int, rounds: int) -> None:
        on_step(f"{names[method]}: round {done} of {rounds}")

    common = {**fleet, **settings}
    report = compare(
        "fleet", methods, common, folder, crypto=crypto, command=command, problem=subject.problem, on_step=on_round
    )
    protections = [_protection(row) for row in report["rows"]]
    exposures = _attack(subject, list(dict.fromkeys(protections)), attacked, on_step)
    for candidate, protection, row in zip(candidates, protections, report["rows"], strict=True):
        row |= {"label": candidate.name, "weakest_share": protection.share, **exposures[protection]}
    report["attacked"] = {key: getattr(attacked, key) for key in ("samples", "seeds", "distribution")}
    report = {**report, "findings": findings(report["rows"])}
    report = {key: _without_nan(each) for key, each in report.items()}
    RunFolder(folder).write(REPORT, json.dumps(report, indent=1).encode())
    return report


_FLEET = ("devices", "cpus", "bandwidths", "ghz", "server_cpus")


def advise(
    model: nn.Module,
    data: Any,
    *,
    settings: Mapping[str, Any] | None = None,
    samples: int = 30,
    seeds: int = 10,
    distribution: str | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Advice:
    """Which protection fits a model and a fleet, measured by two rounds and by attacks.

    Args:
        model: where training starts; its output is one number per class.
        data: inputs and labels as two tensors or arrays.
        settings: of the run, as `--set` takes them, such as `{"devices": "laptop,old-phone", "clients": 6}`.
        samples: of each attacked client.
        seeds: how many clients are attacked.
        distribution: of their data: `iid`, or a number of classes; None: 3, or all if there are fewer.
        on_step: called with what is going on.
    """
    chosen = {"clients": 5, **(settings or {})}
    subject = own_subject(model, data, make_config(chosen).problem.clients)
    chosen |= {"dataset": "own", "model": subject.name, "partition": "own"}
    return advise_subject(subject, chosen, samples=samples, seeds=seeds, distribution=distribution, on_step=on_step)


def advise_subject(
    subject: Subject,
    settings: Mapping[str, Any],
    *,
    samples: int,
    seeds: int,
    distribution: str | None,
    on_step: Callable[[str], None],
) -> Advice:
    """The same for any subject; `settings` fit it."""
    attacked = Attacked(samples=samples, seeds=seeds, distribution=distribution or str(min(3, subject.classes)))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "cost"
        report = assess(CANDIDATES, subject, {"rounds": 2, **settings}, place, attacked=attacked, on_step=on_step)
    return Advice(recommendation(report["rows"], RECOMMENDED, seeds), report)


def _without_nan(value: Any) -> Any:
    """For JSON: None for NaN, such as the accuracy of a model without test data."""
    if isinstance(value, Mapping):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _protection(row: Mapping[str, Any]) -> Protection:
    """Of the client that encrypted least."""
    share = min(each["encrypted_share_min"] for each in row["rounds"])
    return Protection(row["policy"], row["preset"], share, row["settings"].get("rest"))


def _attack(
    subject: Subject, protections: Sequence[Protection], attacked: Attacked, on_step: Callable[[str], None]
) -> dict[Protection, dict[str, Any]]:
    """What adversaries find under each protection."""
    setting = Setting(
        model=subject.build,
        images=subject.inputs,
        labels=subject.labels,
        classes=subject.classes,
        samples=attacked.samples,
        protections=protections,
        adversaries=["prior", *(name for name in attacked.adversaries if name != "prior")],
    )
    rows = label_rows(
        setting,
        distributions=[attacked.distribution],
        seeds=attacked.seeds,
        on_step=lambda _, done: on_step(f"attacks on client {done} of {attacked.seeds}"),
    )
    starts = [place for place, row in enumerate(rows) if row["adversary"] == "prior"]
    groups = [rows[start:end] for start, end in zip(starts, [*starts[1:], len(rows)], strict=True)]
    judged = [PLAINTEXT, *(each for each in protections if each != PLAINTEXT)]
    return {protection: _exposure(group) for protection, group in zip(judged, groups, strict=True)}


def _exposure(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summary of the adversaries' rows; the first row is guessing."""
    prior, *others = rows
    found = [_verdict(each, prior) for each in others]
    strongest = max(found, key=lambda each: (each["verdict"] == "learns", each["irec"]))
    worst = next(word for word in ("learns", "unclear", "guesses") if word in {each["verdict"] for each in found})
    return {
        "guessing": prior["irec"],
        "adversaries": found,
        "strongest": strongest["adversary"],
        "found": strongest["irec"],
        "verdict": worst,
    }


def _verdict(row: Mapping[str, Any], prior: Mapping[str, Any]) -> dict[str, Any]:
    """`learns` if an adversary is better than guessing by more than the noise; `unclear` if the noise is large."""
    gain = row["irec"] - prior["irec"]
    noise = (row["irec_half"] or 0.0) + (prior["irec_half"] or 0.0)
    verdict = "learns" if gain > max(noise, _GAIN) else "unclear" if noise > _CLEAR and gain > -noise else "guesses"
    figures = {key: row[key] for figure in ("leacc", "lnacc", "irec") for key in (figure, f"{figure}_half")}
    return {"adversary": row["adversary"], "verdict": verdict, **figures}
