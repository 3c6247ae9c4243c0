"""How well each attack recovers a client's images, over seeds, by each way to treat what is hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sensecrypt import checks
from sensecrypt.lab.assess.labels import PLAINTEXT
from sensecrypt.lab.assess.peers import Peers
from sensecrypt.lab.assess.protection import Protection, expose
from sensecrypt.lab.attacks.image_labels import batch_labels
from sensecrypt.lab.attacks.image_scores import ImageScores, score_images
from sensecrypt.lab.attacks.images import Reconstruction, dlg, idlg, inverting, mean_image
from sensecrypt.lab.attacks.matching import Fill, fills_for
from sensecrypt.lab.attacks.observation import Observation
from sensecrypt.lab.attacks.pictures import draw_recovered
from sensecrypt.lab.attacks.scores import with_interval
from sensecrypt.lab.attacks.synthetic import synthetic_client
from sensecrypt.rng import derive_rng, derive_seed

IMAGE_ATTACKS = ("dlg", "idlg", "inverting")
PRIOR = ("images", "prior")
LARGEST_BATCH = 8  # gradients of more images than that are matched by too many others to be worth the hours


def image_rows(
    *,
    model: str,
    images: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.int64],
    classes: int,
    samples: int,
    seeds: int,
    first_seed: int = 0,
    protections: Sequence[Protection],
    attacks: Sequence[str] = ("dlg",),
    distribution: str = "iid",
    steps: int = 300,
    pictures: Path | None = None,
    on_step: Callable[[str, int], None] | None = None,
) -> list[dict[str, Any]]:
    """One row for each protection, attack and way to treat what is hidden; plaintext always among them.

    The first is the prior: the mean of public images, which nobody needs an attack for.

    Args:
        model: a name in the zoo.
        images: of the data set.
        labels: of the images.
        classes: how many there are.
        samples: images of each client.
        seeds: clients a row.
        first_seed: of the clients.
        protections: what clients encrypt.
        attacks: their names.
        distribution: `iid`, or a number of classes.
        steps: of the attack's optimiser.
        pictures: a PNG of the first client's images beside what was recovered; None: none.
        on_step: told the protection and how many seeds are done.
    """
    checks.whole("batch", samples, low=1, high=LARGEST_BATCH)
    for name in attacks:
        checks.choice("attacks", name, IMAGE_ATTACKS)
    rows, shown, originals = [], {}, None
    for protection in dict.fromkeys([PLAINTEXT, *protections]):
        found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
        shares = []
        for seed in range(first_seed, first_seed + seeds):
            client = synthetic_client(
                model, images, labels, classes=classes, samples=samples, seed=seed, distribution=distribution
            )
            rng = derive_rng(seed, f"protection {protection.name} {protection.share}")
            seen = expose(protection, Peers(client, images, labels, seed=seed), rng=rng)
            shares.append(float(seen.hidden.mean()))
            observation = seen.to(client, colluding=True)  # the strongest there is: it knows order and mask
            truth = client.inputs.numpy()
            if protection == PLAINTEXT:  # once: it depends on no protection
                found.setdefault(PRIOR, []).append(_means(score_images(mean_image(observation).numpy(), truth)))
            for attack in attacks:
                for fill in fills_for(observation):
                    generator = torch.Generator().manual_seed(derive_seed(seed, f"{attack} {fill}"))
                    got = _attack(attack, observation, fill, generator, steps).images.numpy()
                    scores = score_images(got, truth)
                    found.setdefault((attack, fill), []).append(_means(scores))
                    if seed == first_seed:
                        originals = truth
                        shown[f"{protection.name} {shares[0]:.1%}, {attack}, {fill}"] = got[scores.order]
            if on_step is not None:
                on_step(f"{protection.name} {protection.share:.1%}", seed - first_seed + 1)
        share = float(np.mean(shares))
        rows += [_row(protection, *key, share, distribution, scores_of) for key, scores_of in found.items()]
    if pictures is not None and originals is not None:
        draw_recovered(pictures, originals, shown, title=f"{model}, {samples} image(s) a batch")
    return rows


def _attack(name: str, observation: Observation, fill: Fill, generator: torch.Generator, steps: int) -> Reconstruction:
    if name == "dlg":
        return dlg(observation, fill=fill, generator=generator, steps=steps)
    if name == "idlg":
        return idlg(observation, fill=fill, generator=generator, steps=steps)
    labels = batch_labels(observation, fill)
    return inverting(observation, labels=labels, fill=fill, generator=generator, steps=16 * steps)


def _means(scores: ImageScores) -> tuple[float, float, float]:
    return float(np.mean(scores.psnr)), float(np.mean(scores.ssim)), float(np.mean(scores.mse))


def _row(
    protection: Protection,
    attack: str,
    fill: str,
    share: float,
    distribution: str,
    scores: Sequence[tuple[float, float, float]],
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "attack": attack,
        "adversary": fill,
        "policy": protection.policy,
        "preset": protection.preset,
        "rest": "blinded" if protection.blinded else "plain",
        "distribution": distribution,
        "share": share,
        "seeds": len(scores),
    }
    for place, figure in enumerate(("psnr", "ssim", "mse")):
        interval = with_interval([each[place] for each in scores])
        row |= {figure: interval.mean, f"{figure}_half": interval.half}
    psnr = [each[0] for each in scores]
    return row | {"psnr_median": float(np.median(psnr)), "psnr_least": min(psnr), "psnr_most": max(psnr)}
