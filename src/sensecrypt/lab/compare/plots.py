"""Five pictures of a comparison, drawn from its report alone, so that they can be drawn again without running it.

A row keeps its colour (by position) in every picture, and every bar and panel carries the row's name, so that no reader
has to tell colours apart. Curves get a panel each, with the other rows in grey behind: methods that train the same
models would hide each other in one panel, and their ranges always would. Equal reports give equal bytes: no time stamp,
no version, no setting of the user's matplotlib goes into a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

from sensecrypt.errors import InvalidInput
from sensecrypt.files import write_whole
from sensecrypt.lab.drawing import (
    GREY,
    LIGHT_GREY,
    Axes,
    Figure,
    colour_of,
    columns_for,
    legend,
    log_axis,
    look,
    number,
    sheet,
    style,
    to_png,
)

Row = Mapping[str, Any]
Report = Mapping[str, Any]
Curves = tuple[list[int], list[float], list[float], list[float]]

PHASES = {"train": "#0072B2", "select": "#F0E442", "encrypt": "#D55E00", "upload": "#56B4E9", "wait": "#E3E3E3"}


def draw(report: Report, folder: Path) -> list[Path]:
    """Draw all pictures, or none: files are touched only once every picture is ready.

    Args:
        report: what a comparison found, as it reads from its JSON file.
        folder: where the PNG files go; made if needed.

    Returns:
        The files, in the order of reading.

    Raises:
        InvalidInput: the report lacks something that the pictures show.
        MissingExtra: matplotlib is not installed.
    """
    pictures = {
        "training_time.png": _training_time,
        "accuracy.png": _accuracy,
        "communication.png": _communication,
        "timeline.png": _timeline,
        "round_time.png": _round_time,
    }
    fix = "pass a whole report of a comparison"
    if not report.get("rows") or not all(row.get("rounds") for row in report["rows"]):
        raise InvalidInput("report", "has no rows, or a row without rounds", fix)
    try:
        with style("plots"):
            images = {name: to_png(picture(report)) for name, picture in pictures.items()}
    except KeyError as error:
        raise InvalidInput("report", f"lacks {error}", fix) from error
    folder.mkdir(parents=True, exist_ok=True)
    return [write_whole(folder / name, image) for name, image in images.items()]


def _training_time(report: Report) -> Figure:
    """Device time of the whole training, and of the same training with our implementation."""
    rows = report["rows"]
    figure, [axes] = sheet(_title("Training time", report), panels=1, size=(11, 0.72 * len(rows) + 1.7))
    seconds = [(row["device_seconds"], row["device_seconds_ours"]) for row in rows]
    log_axis(axes, "x", [each for pair in seconds for each in pair if each is not None])
    for place, (row, (first, second)) in enumerate(zip(rows, seconds, strict=True)):
        both = second is not None
        _bar(axes, place - 0.2 * both, 0.38 if both else 0.5, first, f"{number(first)} s{_how(row)}", colour_of(place))
        if second is not None:
            gain = f", {number(first / second)} times faster" if 0 < second < first else ""
            _bar(axes, place + 0.2, 0.38, second, f"{number(second)} s, ours{gain}", colour_of(place), hatched=True)
    _name_bars(axes, [row["name"] for row in rows], "seconds on the device clock, all rounds (logarithmic)")
    if any(second is not None for _, second in seconds):
        legend(figure, {"as compared": (GREY, False), "the same run with our implementation": (GREY, True)})
    return figure


def _accuracy(report: Report) -> Figure:
    """The clients' mean accuracy and range by round, in percent."""
    curves = [_curves(row, "accuracy", 100.0) for row in report["rows"]]
    title = _title("Accuracy", report, "line: mean of the clients; shade: worst to best; grey: the other rows")
    return _curve_panels(title, report["rows"], curves, "accuracy, %", " %")


def _communication(report: Report) -> Figure:
    """Bytes up and down per round and row, mean of all rounds."""
    rows = report["rows"]
    figure, [axes] = sheet(_title("Communication", report), panels=1, size=(11, 0.72 * len(rows) + 1.7))
    sent = [[fmean(each[way] / 1e6 for each in row["rounds"]) for way in ("bytes_up", "bytes_down")] for row in rows]
    log_axis(axes, "x", [each for pair in sent for each in pair])
    for place, (up, down) in enumerate(sent):
        _bar(axes, place - 0.2, 0.38, up, f"{number(up)} MB up", colour_of(place))
        _bar(axes, place + 0.2, 0.38, down, f"{number(down)} MB down", colour_of(place), hatched=True)
    _name_bars(axes, [row["name"] for row in rows], "MB a round, mean over the rounds (logarithmic)")
    legend(figure, {"up: clients to server": (GREY, False), "down: server to clients": (GREY, True)})
    return figure


def _timeline(report: Report) -> Figure:
    """The steps of each client in the last round, and its waiting."""
    rows = report["rows"]
    columns, most = columns_for(len(rows)), max(len(row["timeline"]) for row in rows)
    height = math.ceil(len(rows) / columns) * (0.19 * most + 1.0) + 1.1
    title = _title("Last round, client by client", report, "each panel has its own scale")
    figure, panels = sheet(title, panels=len(rows), size=(5.6 * columns + 2.4 * (columns == 1), height))
    for axes, row in zip(panels, rows, strict=True):
        _client_bars(axes, row["timeline"])
        busy = [sum(client[phase] for phase in PHASES if phase != "wait") for client in row["timeline"]]
        work = f"{number(min(busy))} to {number(max(busy))} s at work" if busy else "no client took part"
        axes.set_title(fill(f"{row['name']}: {work}", 58), fontweight="bold")
    legend(figure, {phase: (colour, False) for phase, colour in PHASES.items()})
    return figure


def _round_time(report: Report) -> Figure:
    """Seconds of the fastest, the mean and the slowest client by round."""
    curves = [_curves(row, "client_seconds", 1.0) for row in report["rows"]]
    title = _title(
        "Time of a round", report, "line: mean of the clients; shade: fastest to slowest; grey: the other rows"
    )
    figure = _curve_panels(title, report["rows"], curves, "seconds (logarithmic)", " s")
    log_axis(figure.axes[0], "y", [value for _, *parts in curves for part in parts for value in part])
    return figure


def _curves(row: Row, quantity: str, scale: float) -> Curves:
    """Round numbers, and the least, mean and greatest value of the clients."""
    least, mean, most = (
        [scale * each[f"{quantity}_{end}"] for each in row["rounds"]] for end in ("min", "mean", "max")
    )
    return [each["round"] for each in row["rounds"]], least, mean, most


def _curve_panels(title: str, rows: Sequence[Row], curves: Sequence[Curves], label: str, unit: str) -> Figure:
    """One panel per row: its mean and range in colour, the means of the others in grey, the last values as text."""
    columns = columns_for(len(rows))
    size = (4.4 * columns + 3.6 * (columns == 1), 2.6 * math.ceil(len(rows) / columns) + 1.2)
    figure, panels = sheet(title, panels=len(rows), size=size, share=True)
    for place, (axes, row, (rounds, least, mean, most)) in enumerate(zip(panels, rows, curves, strict=True)):
        for others, _, other, _ in curves:
            axes.plot(others, other, color=LIGHT_GREY, linewidth=1, marker="_" if len(others) == 1 else "", ms=14)
        colour = colour_of(place)
        axes.fill_between(rounds, least, most, color=colour, alpha=0.25, linewidth=0)
        if len(rounds) == 1:
            axes.vlines(rounds, least, most, color=colour, alpha=0.25, linewidth=12)  # a shade needs two rounds
        axes.plot(rounds, mean, color=colour, linewidth=2.2, marker="o" if len(rounds) <= 12 else "", markersize=4.5)
        last = f"last round: mean {number(mean[-1])}{unit} ({number(least[-1])} to {number(most[-1])})"
        axes.set_title(f"{fill(row['name'], 44)}\n{last}")
        axes.grid(visible=True)
        axes.tick_params(labelbottom=True, labelleft=True)
        axes.set(xlabel="round", ylabel=label if place % columns == 0 else "")
    every = [number for rounds, *_ in curves for number in rounds]
    panels[0].set_xlim(min(every) - 0.4, max(every) + 0.4)
    panels[0].locator_params(axis="x", nbins=8, integer=True, min_n_ticks=1)
    return figure


def _client_bars(axes: Axes, timeline: Sequence[Mapping[str, Any]]) -> None:
    """One bar per client, of its phases in order."""
    places, ends = range(len(timeline)), [0.0] * len(timeline)
    for phase, colour in PHASES.items():
        spent = [client[phase] for client in timeline]
        axes.barh(places, spent, left=ends, height=0.8, color=colour)
        ends = [end + more for end, more in zip(ends, spent, strict=True)]
    names = [f"client {client['client']}, {client['device']}" for client in timeline]
    _name_bars(axes, names, "seconds on the device clock", 8)
    axes.set_xlim(0, max(ends, default=0.0) * 1.02 or 1.0)
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: number(value))


def _bar(axes: Axes, place: float, thick: float, value: float, note: str, colour: str, hatched: bool = False) -> None:
    """A bar with its value as text; zero has no bar on a logarithmic axis."""
    start = axes.get_xlim()[0]
    end = max(value, start)
    axes.barh(place, end - start, thick, start, **look(colour, hatched))
    axes.annotate(note, (end, place), (5, 0), textcoords="offset points", va="center", fontsize=9)


def _name_bars(axes: Axes, names: Sequence[str], label: str, fontsize: float = 10) -> None:
    axes.set_yticks(range(len(names)), [fill(name, 34) for name in names], fontsize=fontsize)
    axes.set(ylim=(max(len(names), 1) - 0.45, -0.55), xlabel=label)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _title(what: str, report: Report, note: str = "") -> str:
    size = f"{_count(report['rounds'], 'round')}, {_count(report['clients'], 'client')}"
    heading = f"{what}: {report['scenario']}, {report['dataset']}, {report['model']}, {size}"
    return f"{heading}\n{note}" if note else heading


def _how(row: Row) -> str:
    """How a time was charged; empty for a row without encryption."""
    if row["encrypted_share"] == 0:
        return ""
    return f", {row['implementation']}" + (", calibrated" if row["crypto"] == "calibrated" else "")


def _count(number: float, noun: str) -> str:
    return f"{number:g} {noun}" if number == 1 else f"{number:g} {noun}s"
