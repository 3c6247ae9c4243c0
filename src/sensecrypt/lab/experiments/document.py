"""docs/results.md from the saved rows: each figure with its settings, verdicts and differences from the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.experiments.item import OUTCOMES, Item
from sensecrypt.lab.experiments.saved import PICTURE, ROWS, Saved, draw, judge, read_rows

_HEAD = """# The paper's results, repeated

Every equation, algorithm line and setting: [the paper, line by line](fidelity.md).

Made by `make docs` from the rows in `{folder}/`, which `sensecrypt reproduce` measured. Every figure is drawn from its
rows, every verdict computed from them; none is written by hand. *Reproduced in shape*: the trend is the paper's, the
size is not. *Beyond*: more than the paper claims, or something it does not have. *Too little to tell*: measured, but on
too few clients, rounds or samples for a verdict.

The criteria are ours, and several were set or changed after the results of quick runs were known: what "almost static"
means (`extreme-devices`, `uneven-data`: made stricter), when an image counts as readable (`reconstruction`: SSIM 0.5,
after one image), the questions of `layouts` and `frontier`, the IID partition of `divergence`, the reading of the noise
and the rule for its guarantee in `noisy-clustering`. In `strategies`, the bounds of what 40 labels per point can show
were set after the rows of ResNet-50 were known. In `uneven-data`, the readings are shown side by side because one seed
of each had shown that the number of local steps decides the outcome. The learning rates in `similarity`, `b-and-c`,
`taylor` and `components` were lowered because AlexNet diverged with larger ones. In `anchors`, networks and inputs are
those of the authors' public code and logs. That most images were cropped and mirrored was found by trying which inputs
reproduce the logs, batch by batch; 100 networks with 10 batches each were chosen after 20 with 50 had shown how much
networks differ. Most items ran on one choice of seeds.
`ladder` and `uneven-data` are older than sketches of square roots (decision 3). `ladder` is also older than the present
preset `paper` (decision 15); it states the shares that it attacks.
"""


def write_document(items: Sequence[Item], results: Path, document: Path) -> str:
    """Draw every picture again; returns the text, whose links to the pictures are relative to `document`.

    `items` are in the order of the document, and `results` has one folder per item.
    """
    measured = [(item, read_rows(results / item.id)) for item in items if (results / item.id / ROWS).exists()]
    if not measured:
        raise InvalidInput(str(results), "holds no rows", "measure some: sensecrypt reproduce all --out FOLDER")
    folder = results.relative_to(document.parent) if results.is_relative_to(document.parent) else results
    parts = [_HEAD.format(folder=folder), _overview(measured)]
    for item, saved in measured:
        draw(results / item.id, item, saved)
        parts.append(_section(item, saved, f"{folder.as_posix()}/{item.id}/{PICTURE}"))
    missing = [item.id for item in items if not (results / item.id / ROWS).exists()]
    if missing:
        parts.append("Not measured yet: " + ", ".join(f"`{name}`" for name in missing) + ".\n")
    parts.append(_machines(measured))
    return "\n".join(parts)


def _overview(measured: Sequence[tuple[Item, Saved]]) -> str:
    lines = ["| item | in the paper | " + " | ".join(OUTCOMES) + " |", "|---|---|" + "---|" * len(OUTCOMES)]
    for item, saved in measured:
        counts = Counter(verdict.outcome for verdict in judge(item, saved))
        cells = " | ".join(str(counts[outcome] or "") for outcome in OUTCOMES)
        lines.append(f"| [{item.title}](#{item.id}) | {item.place or 'ours'} | {cells} |")
    return "\n".join(lines) + "\n"


def _section(item: Item, saved: Saved, picture: str) -> str:
    settings = ", ".join(f"{key} {_words(value)}" for key, value in saved.settings.items())
    lines = [
        f'<a id="{item.id}"></a>',
        "",
        f"## {item.title}",
        "",
        f"{item.place or 'Our own'}. `sensecrypt reproduce {item.id} --{saved.scale}`; {settings}; "
        f"{saved.seconds:,.0f} s on {saved.day}.",
        "",
        f"![{item.title}]({picture})",
        "",
        "| the paper says | we measured | verdict |" if item.place else "| question | we measured | verdict |",
        "|---|---|---|",
        *(f"| {_cell(v.says)} | {_cell(v.measured)} | **{v.outcome}** |" for v in judge(item, saved)),
        "",
    ]
    if saved.differs:
        lines += ["Differs from the paper: " + "; ".join(saved.differs) + ".", ""]
    return "\n".join(lines)


def _machines(measured: Sequence[tuple[Item, Saved]]) -> str:
    kinds = dict.fromkeys(tuple(saved.machine.items()) for _, saved in measured)
    lines = ["## Measured on", ""]
    lines += ["* " + ", ".join(f"{key} {value}" for key, value in kind) for kind in kinds]
    return "\n".join(lines) + "\n"


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
