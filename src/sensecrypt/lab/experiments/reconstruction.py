"""Appendix P: images from gradients under MaskCrypt and SenseCrypt, by attackers that use the mask or ignore it.

Also images from sensitivities in the clear: Appendix G says that no attack reconstructs data from them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sensecrypt.crypto.parallel import may_fork
from sensecrypt.data import load_dataset
from sensecrypt.data.datasets import Dataset
from sensecrypt.lab.assess.images import image_rows
from sensecrypt.lab.assess.peers import Peers
from sensecrypt.lab.assess.protection import Protection, expose
from sensecrypt.lab.assess.setting import Setting
from sensecrypt.lab.attacks.image_scores import score_images
from sensecrypt.lab.attacks.images import dlg
from sensecrypt.lab.attacks.matching import Fill
from sensecrypt.lab.attacks.synthetic import SyntheticClient, synthetic_client
from sensecrypt.lab.drawing import Axes, Figure, colour_of, sheet
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.rng import derive_seed

NOTHING, MASK, SENSE = "nothing", "MaskCrypt", "SenseCrypt"
CLEAR = "SenseCrypt, all of it"
OURS, INSIDE = "default, aggregator alone", "default, with a member"
SWEEP = {"high": "high_sensitivity", "random": "random"}
SEEN = 0.5  # SSIM above which a digit is recognisable; noise has about 0.05


@dataclass(frozen=True)
class Attempt:
    """One attack on one image."""

    method: str  # its name in the picture
    protection: Protection  # what the client encrypts
    fill: Fill  # how the attacker treats hidden values
    colluding: bool  # whether it knows the order
    seed: int  # of client and attack
    shown: bool  # whether the row holds the image


def cells(spec: Spec) -> list[Cell]:
    """The methods, one cell per client; the sweep, one cell per policy; then batches."""
    seeds = range(spec["first_seed"], spec["first_seed"] + spec["seeds"])
    one = 1.2 * spec["steps"] / 5
    found = [Cell(f"methods-{seed}", 4 * one, partial(_measure, spec, _methods(spec, seed))) for seed in seeds]
    for first in SWEEP:
        tries = [
            Attempt(f"{first} first", Protection(SWEEP[first], "paper", share), "mask-aware", True, seed, False)
            for seed in seeds[: spec["sweep_seeds"]]
            for share in spec["sweep_shares"]
        ]
        found.append(Cell(f"sweep-{first}", one * len(tries) / 2, partial(_measure, spec, tries)))
    if spec["batch"]:
        found.append(Cell("batch", 60.0, partial(_batch, spec)))
    return found


def _methods(spec: Spec, seed: int) -> list[Attempt]:
    share, shown = spec["share"], seed == spec["first_seed"]
    mask, sense = Protection("maskcrypt", "paper", share), Protection("sensecrypt", "paper", share)
    default = Protection("sensecrypt", "default", share, "plain")
    aware: Fill = "mask-aware"
    return [
        Attempt(NOTHING, Protection("plaintext", "paper", 0.0), aware, True, seed, shown),
        *(Attempt(MASK, mask, fill, True, seed, shown) for fill in ("zero-fill", "mask-aware")),
        *(Attempt(SENSE, sense, fill, True, seed, shown) for fill in ("zero-fill", "mask-aware")),
        Attempt(CLEAR, Protection("sensecrypt", "paper", 1.0), "sensitivity", False, seed, shown),
        Attempt(OURS, default, aware, False, seed, shown),
        Attempt(INSIDE, default, aware, True, seed, shown),
    ]


def _measure(spec: Spec, attempts: Sequence[Attempt], _folder: Path) -> list[Row]:
    """Run two attempts at a time, as an attack on a small network uses one core only."""
    attack = partial(_attack, spec["steps"], spec["restarts"])
    if not may_fork():
        return [attack(attempt) for attempt in attempts]
    with ProcessPoolExecutor(2, get_context("fork"), torch.set_num_threads, (1,)) as pool:
        return list(pool.map(attack, attempts))


def _attack(steps: int, restarts: int, attempt: Attempt) -> Row:
    data = _data()
    client = _client(attempt.seed)
    seen = expose(attempt.protection, Peers(client, data.train_images, data.train_labels, seed=attempt.seed))
    generator = torch.Generator().manual_seed(derive_seed(attempt.seed, f"dlg {attempt.fill}"))
    observation = seen.to(client, colluding=attempt.colluding)
    got = dlg(observation, fill=attempt.fill, generator=generator, steps=steps, restarts=restarts).images.numpy()
    truth = client.inputs.numpy()
    scores = score_images(got, truth)
    return {
        "attack": "dlg",
        "method": attempt.method,
        "adversary": attempt.fill,
        "share": float(seen.hidden.mean()),
        "seed": attempt.seed,
        "psnr": float(scores.psnr[0]),
        "ssim": float(scores.ssim[0]),
        "image": _text(got) if attempt.shown else "",
        "original": _text(truth) if attempt.shown else "",
    }


@cache
def _data() -> Dataset:
    return load_dataset("mnist")


def _client(seed: int) -> SyntheticClient:
    data = _data()
    return synthetic_client("dlg", data.train_images, data.train_labels, classes=data.classes, samples=1, seed=seed)


def _batch(spec: Spec, _folder: Path) -> list[Row]:
    """Inverting Gradients on LeNet-5; the paper's attacker uses the labels that iLRG finds."""
    data = _data()
    torch.set_num_threads(1)
    names = {"plaintext": NOTHING, "maskcrypt": MASK, "sensecrypt": SENSE}
    setting = Setting(
        model="lenet5",
        images=data.train_images,
        labels=data.train_labels,
        classes=data.classes,
        samples=spec["batch"],
        protections=[Protection(policy, "paper", spec["share"]) for policy in ("maskcrypt", "sensecrypt")],
    )
    seeds, first, steps = (spec[key] for key in ("batch_seeds", "first_seed", "batch_steps"))
    rows = image_rows(setting, seeds=seeds, first_seed=first, attacks=("inverting",), steps=steps)
    kept = ("attack", "adversary", "share", "psnr", "ssim")
    # The paper compares uploads only; for guessing and Γ in the clear see docs/security.md.
    compared = [row for row in rows if row["adversary"] in ("zero-fill", "mask-aware")]
    return [{"method": names[row["policy"]], **{key: row[key] for key in kept}} for row in compared]


def _text(images: npt.NDArray[Any]) -> str:
    """One grey image of 28 × 28 pixels as text."""
    return base64.b64encode(np.rint(images[0, 0].clip(0, 1) * 255).astype(np.uint8).tobytes()).decode()


def _pixels(text: str) -> npt.NDArray[np.uint8]:
    flat = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
    side = round(flat.size**0.5)
    return flat.reshape(side, side)


def draw(rows: Rows) -> Figure:
    """The image and its reconstructions; below, the quality of the mask-aware attack by the share."""
    shown = [row for row in rows if row.get("image")]
    across = len(shown) + 1
    figure, [below] = sheet("One image from its gradient", panels=1, size=(12, 6.4))
    grid = figure.add_gridspec(2, across, height_ratios=(1, 1.5))
    below.set_subplotspec(grid[1, :])
    _picture(figure.add_subplot(grid[0, 0]), shown[0]["original"], "original", "")
    for place, row in enumerate(shown):
        method = row["method"].replace(", ", ",\n")
        words = f"{method}\n{row['share']:.1%} encrypted" if row["share"] else "nothing\nencrypted"
        note = f"{row['adversary']}\n{row['psnr']:.0f} dB"
        _picture(figure.add_subplot(grid[0, place + 1]), row["image"], words, note)
    for place, first in enumerate(SWEEP):
        shares = _shares(rows, first)
        medians = [_median(rows, f"{first} first", "mask-aware", "psnr", share) for share in shares]
        below.plot(shares, medians, marker="o", ms=5, color=colour_of(place), label=f"{first} first, mask-aware")
    share = next(row["share"] for row in rows if row["method"] == SENSE)
    for method, marker in ((MASK, "k+"), (SENSE, "kx")):
        label = f"{method}, zero-fill (the paper's attacker)"
        below.plot([share], [_median(rows, method, "zero-fill", "psnr")], marker, ms=8, label=label)
    plain = _median(rows, NOTHING, "mask-aware", "psnr")
    below.axhline(plain, color="grey", linestyle="--", linewidth=1, label="nothing encrypted")
    below.set(xlabel="encrypted share", ylabel="PSNR in dB, median", ylim=(0, None))
    below.grid(visible=True)
    below.legend(fontsize=8, loc="center left")
    return figure


def _picture(axes: Axes, text: str, title: str, note: str) -> None:
    axes.imshow(_pixels(text), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=8, loc="center")
    axes.set_xlabel(note, fontsize=8)


def judge(rows: Rows) -> list[Verdict]:
    """The paper's comparison, both attackers at 3 %, and the share at which the better attacker fails."""
    plain = _quality(rows, NOTHING, "mask-aware")
    mask, sense = (_median(rows, method, "zero-fill", "ssim") for method in (MASK, SENSE))
    count = sum(row["method"] == SENSE and row["adversary"] == "zero-fill" and row["attack"] == "dlg" for row in rows)
    share = next(row["share"] for row in rows if row["method"] == SENSE)
    aware = _median(rows, SENSE, "mask-aware", "ssim")
    verdicts = [
        Verdict(
            "SenseCrypt's reconstruction exposes much less useful information than MaskCrypt's",
            f"hidden values set to 0, {share:.1%} encrypted, median of {count}: SenseCrypt "
            f"{_quality(rows, SENSE, 'zero-fill')}, MaskCrypt {_quality(rows, MASK, 'zero-fill')}, nothing encrypted "
            f"{plain}",
            graded(mask > SEEN > sense, sense < mask - 0.1),
        ),
        Verdict(
            f"(ours) does {share:.1%} stop an attacker that ignores hidden values instead of setting them to 0?",
            f"SenseCrypt {_quality(rows, SENSE, 'mask-aware')}, MaskCrypt {_quality(rows, MASK, 'mask-aware')}, "
            f"nothing encrypted {plain}",
            answer(aware <= SEEN),
        ),
        _clear_verdict(rows),
        _sweep_verdict(rows),
        _default_verdict(rows),
    ]
    batch = {(row["method"], row["adversary"]): row for row in rows if row["attack"] == "inverting"}
    if batch:
        words = ", ".join(f"{' '.join(who)} {row['psnr']:.1f} dB ({row['ssim']:.2f})" for who, row in batch.items())
        first, second = (batch[method, "zero-fill"]["ssim"] for method in (MASK, SENSE))
        verdicts.append(
            Verdict(
                "the same from batch-averaged gradients with iLRG's labels",
                f"Inverting Gradients on LeNet-5, PSNR and SSIM: {words}",
                graded(first > SEEN > second, second < first - 0.1),
            )
        )
    return verdicts


def _clear_verdict(rows: Rows) -> Verdict:
    found = _median(rows, CLEAR, "sensitivity", "ssim")
    return Verdict(
        "(Appendix G) no existing attack reconstructs data from sensitivities, which clients upload in the clear",
        f"everything encrypted, the aggregator alone, |g| = Γ/|w|: {_quality(rows, CLEAR, 'sensitivity')}, nothing "
        f"encrypted {_quality(rows, NOTHING, 'mask-aware')}",
        graded(found <= SEEN),
    )


def _sweep_verdict(rows: Rows) -> Verdict:
    fails, found = {}, []
    for first in SWEEP:
        shares = _shares(rows, first)
        seen = [_median(rows, f"{first} first", "mask-aware", "ssim", share) for share in shares]
        failing = [share for place, share in enumerate(shares) if max(seen[place:]) < SEEN]
        fails[first] = f"from {failing[0]:.0%} on" if failing else "nowhere"
        words = [f"{_quality(rows, f'{first} first', 'mask-aware', share)} at {share:.0%}" for share in shares]
        found.append(f"{first} first {', '.join(words)}")
    return Verdict(
        "(ours) how much must be encrypted before the mask-aware attack fails?",
        f"it fails {', '.join(f'{where} ({first} first)' for first, where in fails.items())}: {'; '.join(found)}",
        answer(fails["high"] != "nowhere"),
    )


def _default_verdict(rows: Rows) -> Verdict:
    alone, inside = (_median(rows, method, "mask-aware", "ssim") for method in (OURS, INSIDE))
    hidden = next(row["share"] for row in rows if row["method"] == OURS)
    return Verdict(
        f"(ours) preset default at the same budget, with the classifier {hidden:.0%}: does the attack fail?",
        f"aggregator alone {_quality(rows, OURS, 'mask-aware')}, with a member of the cluster "
        f"{_quality(rows, INSIDE, 'mask-aware')}",
        answer(True) if max(alone, inside) < SEEN else graded(False, alone < SEEN),
    )


def _quality(rows: Rows, method: str, adversary: str, share: float | None = None) -> str:
    psnr, ssim = (_median(rows, method, adversary, key, share) for key in ("psnr", "ssim"))
    return f"{psnr:.0f} dB (SSIM {ssim:.2f})"


def _median(rows: Rows, method: str, adversary: str, key: str, share: float | None = None) -> float:
    """The median over single images; None is the infinite PSNR of equal images."""
    wanted = ("dlg", method, adversary)
    own = [row for row in rows if (row["attack"], row["method"], row["adversary"]) == wanted]
    values = [row[key] for row in own if share is None or round(row["share"], 3) == share]
    if not values:
        raise KeyError(f"{method}, {adversary}")
    return float(np.median([np.inf if value is None else value for value in values]))


def _shares(rows: Rows, first: str) -> list[float]:
    return sorted({round(row["share"], 3) for row in rows if row["method"] == f"{first} first"})


ITEM = Item(
    "reconstruction",
    "A data sample reconstructed from gradients",
    "Appendix P",
    cells,
    draw,
    judge,
    datasets=lambda _: ["mnist"],
)
