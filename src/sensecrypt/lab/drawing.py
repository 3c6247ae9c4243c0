"""Drawing for all pictures: matplotlib with fixed defaults, colours, axes, and equal bytes for equal figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from sensecrypt.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # names for annotations: matplotlib is loaded when something is drawn
    Axes = Figure = object

# Okabe and Ito's colours, distinct with any colour vision; their yellow is darker here, and wine red is added.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B5A900", "#882255")
GREY, LIGHT_GREY = "#777777", "#C8C8C8"
STYLE = {
    "text.parse_math": False,  # names are plain text
    "font.size": 10.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "#E6E6E6",
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
}


@contextmanager
def style(feature: str, settings: Mapping[str, Any] = STYLE) -> Iterator[None]:
    """Use matplotlib's defaults and `settings` instead of the user's, which are restored afterwards."""
    try:
        matplotlib = import_module("matplotlib")
    except ImportError as error:
        raise MissingExtra(feature, "lab") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def to_png(figure: Figure) -> bytes:
    """The figure as a PNG file, without date and version: equal figures give equal bytes."""
    image = BytesIO()
    figure.savefig(image, format="png", metadata={"Software": None})
    return image.getvalue()


def legend(figure: Figure, entries: Mapping[str, tuple[str, bool]]) -> None:
    """One legend of colours and hatching for the whole picture, below it."""
    patch = import_module("matplotlib.patches").Patch
    handles = [patch(label=label, **look(colour, hatched)) for label, (colour, hatched) in entries.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def legend_below(figure: Figure, axes: Axes, *, fontsize: float | None = None, columns: int | None = None) -> None:
    """The legend of one panel, below the whole picture."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns or len(handles), fontsize=fontsize)


def look(colour: str, hatched: bool) -> dict[str, Any]:
    """A bar: filled, or hatched in the same colour for a second quantity."""
    return {"facecolor": "white" if hatched else colour, "edgecolor": colour, "hatch": "////" if hatched else ""}


def log_axis(axes: Axes, which: Literal["x", "y"], values: Iterable[float]) -> None:
    """A logarithmic axis around the positive values, with plain numbers."""
    positive = [value for value in values if 0 < value < math.inf] or [1.0]
    low, high = min(positive) / 2, max(positive) * 1.5
    axes.set(**{f"{which}lim": (low, high), f"{which}scale": "log"})  # in this order: zeros alone would raise a warning
    axis, ticker = getattr(axes, f"{which}axis"), import_module("matplotlib.ticker")
    axis.set_major_locator(
        ticker.LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 200 else (1.0,), numticks=7 if which == "x" else 12)
    )
    axis.set_major_formatter(lambda value, _: number(value))
    axis.set_minor_formatter(ticker.NullFormatter())


def sheet(
    title: str, *, panels: int, size: tuple[float, float], share: bool = False, columns: int | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, made without pyplot: nothing has to be closed, and no window system is needed."""
    figure = import_module("matplotlib.figure").Figure(figsize=size, dpi=120, layout="constrained")
    across = columns or columns_for(panels)
    grid = figure.subplots(math.ceil(panels / across), across, sharex=share, sharey=share, squeeze=False).flatten()
    for spare in grid[panels:]:
        spare.remove()
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return figure, list(grid[:panels])


def columns_for(panels: int) -> int:
    """The number of panels in a row."""
    return 1 if panels == 1 else 2 if panels in (2, 4) else 3


def number(value: float) -> str:
    """About three digits, large numbers written out."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def colour_of(place: int) -> str:
    """The colour of the row in this place."""
    return COLOURS[place % len(COLOURS)]
