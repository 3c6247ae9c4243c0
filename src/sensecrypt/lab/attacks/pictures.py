"""A picture of recovered images: originals in the first row, then one row per attack, each image below its original.

Equal images give equal files: they contain no time and no version, and do not depend on the user's matplotlib settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.errors import InvalidInput
from sensecrypt.files import write_whole
from sensecrypt.lab.attacks.image_scores import score_images
from sensecrypt.lab.drawing import Axes, style, to_png

STYLE = {"text.parse_math": False, "font.size": 9.0}  # names are plain text


def draw_recovered(
    path: Path, originals: npt.ArrayLike, recovered: Mapping[str, npt.ArrayLike], *, title: str = ""
) -> Path:
    """Write a PNG file, whole or not at all.

    Args:
        path: the file; its folder is made if needed.
        originals: (K, channels, height, width), inside 0 … 1; one channel or three.
        recovered: the images of each attack, in any order; they are matched to the originals as for scoring.
        title: a line above.
    """
    rows: list[tuple[str, npt.NDArray[Any], list[str]]] = []
    truth = np.asarray(originals)
    if truth.ndim != 4 or truth.shape[1] not in (1, 3):
        raise InvalidInput("originals", f"have shape {truth.shape}", "pass (images, 1 or 3 channels, height, width)")
    rows.append(("original", truth, [""] * len(truth)))
    for name, images in recovered.items():
        scores = score_images(images, truth)
        rows.append((name, np.asarray(images).clip(0, 1)[scores.order], [_decibels(value) for value in scores.psnr]))
    image = _draw(rows, title)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_whole(path, image)


def _draw(rows: list[tuple[str, npt.NDArray[Any], list[str]]], title: str) -> bytes:
    columns = len(rows[0][1])
    with style("pictures", STYLE):
        size = (1.9 + 1.2 * columns, 1.45 * len(rows) + (0.4 if title else 0.0))
        figure = import_module("matplotlib.figure").Figure(figsize=size, dpi=120, layout="constrained")
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for panels, (name, images, notes) in zip(grid, rows, strict=True):
            panels[0].set_ylabel(fill(name, 16), rotation=0, ha="right", va="center", labelpad=8)
            for axes, image, note in zip(panels, images, notes, strict=True):
                _show(axes, image, note)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        return to_png(figure)


def _show(axes: Axes, image: npt.NDArray[Any], note: str) -> None:
    """Grey or colours by the number of channels, pixels as they are, without smoothing."""
    pixels = image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[], xlabel=note)


def _decibels(psnr: float) -> str:
    return f"{psnr:.0f} dB" if np.isfinite(psnr) else "equal"
