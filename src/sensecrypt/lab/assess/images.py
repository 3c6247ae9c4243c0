"""How well each attack recovers a client's images, over seeds, for each way to treat hidden values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sensecrypt import checks
from sensecrypt.lab.assess.protection import Protection
from sensecrypt.lab.assess.setting import PLAINTEXT, Setting, mean_row
from sensecrypt.lab.attacks.image_labels import batch_labels
from sensecrypt.lab.attacks.image_scores import ImageScores, score_images
from sensecrypt.lab.attacks.images import Reconstruction, dlg, idlg, inverting, mean_image
from sensecrypt.lab.attacks.matching import Fill, fills_for
from sensecrypt.lab.attacks.observation import Observation
from sensecrypt.lab.attacks.pictures import draw_recovered
from sensecrypt.rng import derive_seed

IMAGE_ATTACKS = ("dlg", "idlg", "inverting")
PRIOR = ("images", "prior")
FIGURES = ("psnr", "ssim", "mse")
LARGEST_BATCH = 8  # more images have so many other batches with the same gradient that hours of search find nothing


def image_rows(
    setting: Setting,
    *,
    seeds: int,
    first_seed: int = 0,
    attacks: Sequence[str] = ("dlg",),
    distribution: str = "iid",
    steps: int = 300,
    pictures: Path | None = None,
    on_step: Callable[[str, int], None] | None = None,
) -> list[dict[str, Any]]:
    """One row per protection, attack and way to treat hidden values; plaintext is always included.

    The first row is the prior: the mean of public images, a guess without any attack.

    Args:
        setting: of the clients, in one step of a fresh model.
        seeds: clients per row.
        first_seed: of the clients.
        attacks: their names.
        distribution: `iid`, or a number of classes.
        steps: of the attack's optimiser.
        pictures: a PNG of the first client's images and what was recovered; None: none.
        on_step: called with the protection and the number of finished clients.
    """
    checks.whole("batch", setting.samples, low=1, high=LARGEST_BATCH)
    for name in attacks:
        checks.choice("attacks", name, IMAGE_ATTACKS)
    found: dict[tuple[Protection, str, str], list[ImageScores]] = {}
    shares: dict[Protection, list[float]] = {}
    shown, originals = {}, None
    for seed in range(first_seed, first_seed + seeds):
        client = setting.client(seed, distribution)
        truth = client.inputs.numpy()
        for protection, seen in setting.exposures(client, seed):
            share = float(seen.hidden.mean())
            shares.setdefault(protection, []).append(share)
            observation = seen.to(client, colluding=True)  # the strongest attacker knows order and mask
            if protection == PLAINTEXT:  # once: it depends on no protection
                guess = score_images(mean_image(observation).numpy(), truth)
                found.setdefault((protection, *PRIOR), []).append(guess)
            for attack in attacks:
                for fill in fills_for(observation):
                    generator = torch.Generator().manual_seed(derive_seed(seed, f"{attack} {fill}"))
                    got = _attack(attack, observation, fill, generator, steps).images.numpy()
                    scores = score_images(got, truth)
                    found.setdefault((protection, attack, fill), []).append(scores)
                    if seed == first_seed:
                        originals = truth
                        shown[f"{protection.name} {share:.1%}, {attack}, {fill}"] = got[scores.order]
            if on_step is not None:
                on_step(f"{protection.name} {protection.share:.1%}", seed - first_seed + 1)
    if pictures is not None and originals is not None:
        draw_recovered(pictures, originals, shown, title=f"{setting.model}, {setting.samples} image(s) per batch")
    rows = []
    for (protection, attack, fill_or_prior), each in found.items():
        figures = {name: [float(np.mean(getattr(scores, name))) for scores in each] for name in FIGURES}
        row = mean_row(attack, fill_or_prior, protection, distribution, shares[protection], figures)
        psnr = figures["psnr"]
        rows.append(row | {"psnr_median": float(np.median(psnr)), "psnr_least": min(psnr), "psnr_most": max(psnr)})
    return rows


def _attack(name: str, observation: Observation, fill: Fill, generator: torch.Generator, steps: int) -> Reconstruction:
    if name == "inverting":
        labels = batch_labels(observation, fill)
        return inverting(observation, labels=labels, fill=fill, generator=generator, steps=16 * steps)
    return {"dlg": dlg, "idlg": idlg}[name](observation, fill=fill, generator=generator, steps=steps)
