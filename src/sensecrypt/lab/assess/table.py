"""All attacks on synthetic clients of one model and data set, as one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from sensecrypt.client.usercode import explained
from sensecrypt.data import load_dataset
from sensecrypt.errors import InvalidInput
from sensecrypt.lab.assess.images import IMAGE_ATTACKS, LARGEST_BATCH, image_rows
from sensecrypt.lab.assess.labels import label_rows
from sensecrypt.lab.assess.protection import Protection
from sensecrypt.lab.assess.setting import NAMES, Setting, check_distribution
from sensecrypt.models import build_model, find_head

LOCAL_BATCH = 32  # samples per local step, where there are several


def attack_rows(
    model: str,
    dataset: str,
    *,
    samples: int,
    seeds: int,
    first_seed: int = 0,
    protections: Sequence[Protection],
    distributions: Sequence[str] = ("iid",),
    attacks: Sequence[str] = ("labels",),
    steps: int = 1,
    trained: int = 0,
    workers: int = 1,
    effort: int = 300,
    pictures: Path | None = None,
    on_step: Callable[[str, int], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Rows of label attacks, then of image attacks.

    Args:
        model: a name in the zoo.
        dataset: by name.
        samples: of each client.
        seeds: clients per row.
        first_seed: of the clients.
        protections: what clients encrypt.
        distributions: `iid`, or numbers of classes.
        attacks: `labels`, the whole ladder; `all`, also the image attacks if the batch is small enough; or names.
        steps: local steps; 1 is FedSGD.
        trained: steps that the model was trained before.
        workers: processes.
        effort: steps of image attacks.
        pictures: a PNG of recovered images.
        on_step: called with the present step and the number of finished clients.
        on_note: called with the attacks of `all` that are left out, and why.
    """
    ladder, on_images = _chosen(attacks, samples)
    if "all" in attacks and not on_images and on_note is not None:
        names = ", ".join(IMAGE_ATTACKS)
        on_note(f"left out: {names}, which are for batches of up to {LARGEST_BATCH} images, not {samples:,}")
    data = load_dataset(dataset)
    network = build_model(model, seed=0)
    with explained("dataset", network), torch.no_grad():  # before any work
        network.eval()(torch.as_tensor(data.train_images[:1]).float())
    if ladder:
        find_head(network, data.classes)
    for kind in distributions:
        check_distribution(kind, data.classes, samples)
    if on_images and (steps, trained) != (1, 0):
        fix = "leave out steps and trained, or the image attacks"
        raise InvalidInput("attacks", "on images are for one step of a fresh model", fix)
    if pictures is not None and not on_images:
        raise InvalidInput("pictures", "are of image attacks", f"add one of {', '.join(IMAGE_ATTACKS)} to the attacks")
    torch.set_num_threads(1)
    setting = Setting(
        model=model,
        images=data.train_images,
        labels=data.train_labels,
        classes=data.classes,
        samples=samples,
        protections=protections,
        adversaries=ladder,
        steps=steps,
        minibatch=None if steps == 1 else min(samples, LOCAL_BATCH),
        trained=trained,
    )
    rows: list[dict[str, Any]] = []
    if ladder:
        rows += label_rows(
            setting, distributions=distributions, seeds=seeds, first_seed=first_seed, workers=workers, on_step=on_step
        )
    for place, kind in enumerate(distributions if on_images else ()):
        rows += image_rows(
            setting,
            seeds=seeds,
            first_seed=first_seed,
            attacks=on_images,
            distribution=kind,
            steps=effort,
            pictures=pictures if place == 0 else None,
            on_step=on_step,
        )
    return rows


def _chosen(attacks: Sequence[str], samples: int) -> tuple[list[str], list[str]]:
    """The chosen adversaries of the ladder, and the chosen image attacks."""
    unknown = set(attacks) - {*NAMES, *IMAGE_ATTACKS, "labels", "all"}
    if unknown or not attacks:
        fix = f"choose labels, all, or some of {', '.join((*NAMES, *IMAGE_ATTACKS))}"
        raise InvalidInput("attacks", f"are {', '.join(attacks)!r}", fix)
    everything = "all" in attacks
    ladder = list(NAMES) if everything or "labels" in attacks else [name for name in NAMES if name in attacks]
    on_images = [name for name in attacks if name in IMAGE_ATTACKS]
    if everything and samples <= LARGEST_BATCH:
        on_images = list(IMAGE_ATTACKS)
    if ladder and "prior" not in ladder:
        ladder.insert(0, "prior")  # an attack that does not beat it has learnt nothing
    return ladder, on_images
