"""What each preset costs on a fleet, and what it protects against whom: from measurements made for the question.

The cost comes from two calibrated rounds on the fleet's devices; the protection from attacks on synthetic clients that
encrypt as much as the fleet's weakest client did, for every adversary of the ladder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sensecrypt.data import load_dataset
from sensecrypt.lab.assess.labels import LabelSetting, check_distribution, label_rows
from sensecrypt.lab.assess.protection import Protection
from sensecrypt.lab.compare.comparison import compare
from sensecrypt.methods import parse_methods
from sensecrypt.models import DEFAULT_MODEL, build_model, find_head

CANDIDATES = {
    "plaintext": "plaintext",
    "paper": "sensecrypt@paper",
    "default": "sensecrypt",
    "default, rest plain": "sensecrypt+rest=plain",
    "blinding only": "plaintext+rest=blinded",
    "default, Paillier": "sensecrypt+profile=paillier-2048",
    "everything": "full@default",
}
ROUNDS = 2


def advise(
    settings: Mapping[str, Any],
    *,
    samples: int,
    seeds: int,
    distribution: str,
    on_step: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """One entry for each candidate: its cost, the weakest client's share, and what each adversary finds.

    Args:
        settings: of a run: data set, model, devices.
        samples: of the attacked clients.
        seeds: attacked clients a figure.
        distribution: of their data: `iid` or a number of classes.
        on_step: told what is going on.
    """
    dataset = str(settings.get("dataset", "digits"))
    model = str(settings.get("model") or DEFAULT_MODEL.get(dataset, ""))
    data = load_dataset(dataset)
    find_head(build_model(model, seed=0), data.classes)
    check_distribution(distribution, data.classes, samples)
    methods = parse_methods(",".join(CANDIDATES.values()), "default")

    def told(name: str, done: int, _rounds: int) -> None:
        if on_step is not None:
            on_step(f"cost of {name}, round {done} of {ROUNDS}")

    with tempfile.TemporaryDirectory() as folder:
        common = {**settings, "rounds": ROUNDS}
        report = compare("advice", methods, common, Path(folder) / "cost", crypto="calibrated", on_step=told)
    entries = []
    plain = report["rows"][0]["rounds"][-1]["seconds"]
    for candidate, row in zip(CANDIDATES, report["rows"], strict=True):
        share = min(each["encrypted_share_min"] for each in row["rounds"])
        protection = Protection(row["policy"], row["preset"], share, row["settings"].get("rest"))
        if on_step is not None:
            on_step(f"attacks on {candidate}")
        setting = LabelSetting(
            model=model,
            images=data.train_images,
            labels=data.train_labels,
            classes=data.classes,
            samples=samples,
            protections=[protection],
        )
        found = label_rows(setting, distributions=[distribution], seeds=seeds)
        attacked = [each for each in found if (each["policy"], each["preset"]) == (row["policy"], row["preset"])]
        prior = next(each for each in attacked if each["adversary"] == "prior")
        entries.append(
            {
                "preset": candidate,
                "round_seconds": row["rounds"][-1]["seconds"],
                "times_plaintext": row["rounds"][-1]["seconds"] / plain,
                "implementation": row["implementation"],
                "weakest_share": share,
                "adversaries": [_verdict(each, prior) for each in attacked if each["adversary"] != "prior"],
                "prior": {figure: prior[figure] for figure in ("leacc", "lnacc", "irec")},
            }
        )
    return {"dataset": dataset, "model": model, "distribution": distribution, "seeds": seeds, "entries": entries}


def _verdict(row: Mapping[str, Any], prior: Mapping[str, Any]) -> dict[str, Any]:
    """Whether an adversary does better than guessing, beyond what chance explains."""
    gain = row["irec"] - prior["irec"]
    noise = (row["irec_half"] or 0.0) + (prior["irec_half"] or 0.0)
    figures = {key: row[key] for figure in ("leacc", "lnacc", "irec") for key in (figure, f"{figure}_half")}
    return {"adversary": row["adversary"], "learns": bool(gain > noise and gain > 0.02), **figures}
