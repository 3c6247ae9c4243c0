"""How each table of a run is drawn: Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Sequence

from sensecrypt.report.figures import Chart, Picker, Spec, Table
from sensecrypt.report.tables import EVERYBODY, column, distinct
from sensecrypt.report.timeline import STEPS
from sensecrypt.report.vega import (
    DASHES,
    SHAPES,
    colours,
    cycle,
    heat,
    height_of,
    ordinal,
    plain,
    round_axis,
    series,
    tip,
)
from sensecrypt.report.words import round_name

_DEVICE = ("device", "bandwidth")


def accuracy_chart(table: Table) -> Chart:
    """A line a cluster, within the range of its clients."""
    clusters = distinct(column(table, "cluster"))
    hue = colours("cluster", clusters)
    x = round_axis(table)
    dash = {"field": "cluster", "type": "nominal", "legend": None, "scale": cycle(clusters, DASHES)}
    y = {"type": "quantitative", "title": "accuracy", "axis": {"format": ".1~%"}, "scale": {"zero": False}}
    tooltip = [tip("cluster"), tip("round"), *(tip(name, ".1%") for name in ("mean", "worst", "best"))]
    single = len(distinct(column(table, "round"))) == 1
    band: Spec = {"type": "rule", "strokeWidth": 10, "opacity": 0.3} if single else {"type": "area", "opacity": 0.16}
    return Chart(
        "accuracy",
        "Accuracy of each cluster",
        "Lines: mean accuracy of each cluster's clients by round. Shades: from its worst to its best client.",
        "accuracy",
        plain(
            height=300,
            layer=[
                {
                    "mark": band,
                    "encoding": {"x": x, "y": {"field": "worst", **y}, "y2": {"field": "best"}, "color": hue},
                },
                {
                    "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 28, "filled": True}},
                    "encoding": {
                        "x": x,
                        "y": {"field": "mean", **y},
                        "color": hue,
                        "strokeDash": dash,
                        "tooltip": tooltip,
                    },
                },
            ],
        ),
        legend=series(clusters, "cluster"),
    )


def timeline_chart(table: Table, name: str = "timeline", picker: Picker | None = None) -> Chart:
    """A bar a client, from the start of a round to the end of its own."""
    steps = [field.name for field in table.fields if field.name in STEPS]
    unit = next(field.title.rpartition(", ")[2] for field in table.fields if field.name == "train")
    rounds = distinct(column(table, "round")) if picker is None else []
    latest = rounds[-1] if rounds else 0
    chosen = picker or Picker("Round", "round", [(each, round_name(each)) for each in rounds], latest, slides=True)
    clients = sorted(distinct(column(table, "client")))
    by_step: Spec = {"field": "step", "type": "nominal", "legend": None}
    return Chart(
        name,
        "Who did what, and who waited",
        "One bar a client: the steps of a round one after the other, on its own device. Wait: for slower clients"
        + ("; server: for aggregator and key server." if "server" in steps else "."),
        name,
        plain(
            height=height_of(len(clients)),
            params=[{"name": "chosen", "value": chosen.start}],
            transform=[
                {"filter": f"datum.{chosen.field} == chosen"},
                {"fold": steps, "as": ["step", "time"]},
                {"calculate": f"indexof({steps!r}, datum.step)", "as": "place"},
                {"filter": "datum.time > 0"},
            ],
            mark={"type": "bar", "strokeWidth": 0.8, "height": {"band": 0.8}},
            encoding={
                "y": {
                    "field": "client",
                    "type": "ordinal",
                    "title": "client",
                    "axis": {"ticks": False, "domain": False, "labelOverlap": True},
                    "scale": {"domain": clients},
                },
                "x": {
                    "field": "time",
                    "type": "quantitative",
                    "title": f"time on the device, {unit}",
                    "axis": {"format": ",.4~r"},
                },
                "color": {**by_step, "scale": {"domain": steps, "range": [STEPS[step] for step in steps]}},
                "stroke": {**by_step, "scale": {"domain": steps, "range": [_edge(STEPS[step]) for step in steps]}},
                "order": {"field": "place", "type": "quantitative"},
                "tooltip": [
                    tip("client"),
                    *(tip(field.name, title=field.title) for field in table.fields if field.name in _DEVICE),
                    tip("step"),
                    tip("time", ".3~g", f"time, {unit}"),
                ],
            },
        ),
        legend=list({colour: (step, colour) for step, colour in STEPS.items() if step in steps}.values()),
        picker=chosen,
    )


def share_chart(table: Table, measure: str, title: str, says: str) -> Chart:
    """A cell for each client and round; a cross where the upload did not count."""
    clients = len(distinct(column(table, "client")))
    cell = {"x": {**ordinal("round"), "title": "round"}, "y": {**ordinal("client"), "title": "client"}}
    tooltip = [tip(name) for name in ("client", "cluster", "round")]
    figures = [
        tip("encrypted", ".1%"),
        tip("covered", ".1%", "covered sensitivity"),
        tip("decided", title="decided by"),
    ]
    return Chart(
        measure,
        title,
        says + (" A cross: the upload did not count." if any(column(table, "left_out")) else ""),
        "clients",
        plain(
            height=height_of(clients),
            layer=[
                {
                    "transform": [{"filter": f"isValid(datum.{measure})"}],
                    "mark": {"type": "rect", "stroke": "--surface", "strokeWidth": 0.5},
                    "encoding": {**cell, "color": heat(measure), "tooltip": tooltip + figures},
                },
                {
                    "transform": [{"filter": "datum.left_out != ''"}],
                    "mark": {"type": "text", "text": "\N{MULTIPLICATION SIGN}", "color": "--text", "fontSize": 12},
                    "encoding": {**cell, "tooltip": [*tooltip, tip("left_out", title="left out because")]},
                },
            ],
        ),
        ramp=("0 %", "100 %"),
    )


def traffic_chart() -> Chart:
    """Two bars a round."""
    return Chart(
        "traffic",
        "Communication of each round",
        "Two bars a round: megabytes from all clients up to the servers, and down to all clients.",
        "traffic",
        plain(
            height=240,
            transform=[{"fold": ["up", "down"], "as": ["way", "megabytes"]}],
            mark={"type": "bar"},
            encoding={
                "x": {**ordinal("round"), "title": "round", "sort": None},
                "xOffset": {"field": "way", "type": "nominal", "sort": ["up", "down"]},
                "y": {"field": "megabytes", "type": "quantitative", "title": "MB, all clients"},
                "color": colours("way", ["up", "down"]),
                "tooltip": [tip("round"), tip("way"), tip("megabytes", ",.3~f", "MB")],
            },
        ),
        legend=series(["up", "down"]),
    )


def map_chart(table: Table) -> Chart:
    """A point a client; near means alike."""
    members: dict[int, list[int]] = {}
    for client, cluster in zip(column(table, "client"), column(table, "cluster"), strict=True):
        members.setdefault(cluster, []).append(client)
    clusters = sorted(members)
    axis = {"type": "quantitative", "scale": {"zero": False, "padding": 24}, "axis": {"labels": False, "ticks": False}}
    legend = [
        (f"{text}: {_ranges(members[each])}", hue)
        for each, (text, hue) in zip(clusters, series(clusters, "cluster"), strict=True)
    ]
    return Chart(
        "map",
        "The clients on a map",
        "One mark a client, coloured and shaped by cluster; clients whose data are alike lie close together.",
        "map",
        plain(
            height=300,
            mark={
                "type": "point",
                "filled": True,
                "size": 130,
                "opacity": 0.85,
                "stroke": "--surface",
                "strokeWidth": 1,
            },
            encoding={
                "x": {"field": "x", "title": "first component", **axis},
                "y": {"field": "y", "title": "second component", **axis},
                "color": colours("cluster", clusters),
                "shape": {"field": "cluster", "type": "nominal", "legend": None, "scale": cycle(clusters, SHAPES)},
                "tooltip": [tip("client"), tip("cluster")],
            },
        ),
        legend=legend,
    )


def layer_chart(table: Table) -> Chart:
    """A cell for each layer and round, of one client or of all."""
    layers = distinct(column(table, "layer"))
    who = distinct(column(table, "client"))
    order = [EVERYBODY, *sorted((each for each in who if each != EVERYBODY), key=lambda each: int(each.split()[1]))]
    return Chart(
        "layers",
        "What is encrypted of each layer",
        "A cell for each layer and round: its colour tells the encrypted share of the layer's parameters.",
        "layers",
        plain(
            height=height_of(len(layers), 26),
            params=[{"name": "chosen", "value": EVERYBODY}],
            transform=[{"filter": "datum.client == chosen"}],
            mark={"type": "rect", "stroke": "--surface", "strokeWidth": 0.5},
            encoding={
                "x": {**ordinal("round"), "title": "round"},
                "y": {**ordinal("layer"), "title": None, "sort": layers},
                "color": heat("encrypted"),
                "tooltip": [tip("layer"), tip("round"), tip("encrypted", ".1%"), tip("size", ",", "parameters")],
            },
        ),
        ramp=("0 %", "100 %"),
        picker=Picker("Whose", "client", [(each, each) for each in order], EVERYBODY),
    )


def attack_chart(table: Table) -> Chart:
    """A bar for each attack, beside what guessing finds."""
    files = distinct(column(table, "file"))
    return Chart(
        "attacks",
        "Labels that attacks found",
        "One bar for each attack: the share of the client's labels that it found. The prior is what guessing finds.",
        "attacks",
        plain(
            height=height_of(len(distinct(column(table, "adversary"))), 24 if len(files) == 1 else 14 * len(files)),
            mark={"type": "bar"},
            encoding={
                "y": {"field": "adversary", "type": "nominal", "title": None, "sort": None},
                "yOffset": {"field": "file", "type": "nominal", "sort": files},
                "x": {
                    "field": "irec",
                    "type": "quantitative",
                    "title": "labels found",
                    "axis": {"format": ".0%"},
                    "scale": {"domain": [0, 1]},
                },
                "color": colours("file", files),
                "tooltip": [tip("file"), tip("adversary"), tip("role"), tip("irec", ".1%", "labels found")],
            },
        ),
        legend=series(files),
    )


def _edge(colour: str) -> str:
    """Around a step: as the page behind it, but for waiting, which is pale and needs a line to stand out."""
    return "--wait-line" if colour == "--wait" else "--surface"


def _ranges(clients: Sequence[int], most: int = 6) -> str:
    """Their numbers, neighbours together: 0 to 4, 7; of many only how many."""
    parts: list[list[int]] = []
    for client in sorted(clients):
        if parts and client == parts[-1][-1] + 1:
            parts[-1].append(client)
        else:
            parts.append([client])
    if len(parts) > most:
        return f"{len(clients)} clients"
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts)
