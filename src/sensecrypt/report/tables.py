"""The tables of a run's charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from sensecrypt.records import ClientRecord, Played, clients_of
from sensecrypt.report.figures import Column, Field, Table, tabled
from sensecrypt.report.folder import Seen
from sensecrypt.report.timeline import ALWAYS, STEPS, bars
from sensecrypt.report.words import round_name
from sensecrypt.runs.outcome import Outcome
from sensecrypt.simulation.clock import RoundTime

ALL_CLIENTS = "all clients"
MOST_CELLS = 40_000
MOST_LAYERS = 24


def accuracy_table(outcome: Outcome) -> Table:
    """By cluster and round: the clients' mean and range."""
    known: dict[tuple[int, int], list[float]] = {}
    for record in outcome.records:
        value = math.nan if record.accuracy is None else record.accuracy
        if not math.isnan(value):
            known.setdefault((record.cluster, record.round), []).append(value)
    fields = (
        Field("cluster", "cluster", "whole"),
        Field("round", "round", "whole"),
        Field("mean", "mean accuracy", "share"),
        Field("worst", "worst client", "share"),
        Field("best", "best client", "share"),
        Field("clients", "clients that reported it", "whole"),
    )
    rows = [[*key, fmean(values), min(values), max(values), len(values)] for key, values in sorted(known.items())]
    return Table("Accuracy by cluster and round", fields, rows)


def client_table(outcome: Outcome) -> Table:
    """By client and round: encrypted share, coverage, and what decided it."""
    columns: list[Column] = [
        ("client", "client", "whole", "client"),
        ("cluster", "cluster", "whole", "cluster"),
        ("round", "round", "whole", "round"),
        ("encrypted", "encrypted parameters", "share", "encrypted_share"),
        ("covered", "covered sensitivity", "share", "coverage"),
        ("budget", "budget", "share", "budget"),
        ("decided", "decided by", "text", lambda record: record["decided_by"] or ""),
        ("left_out", "left out because", "text", lambda record: record["left_out"] or ""),
    ]
    records = sorted(outcome.records, key=lambda each: (each.round, each.client))
    return tabled("Encrypted share of each client in each round", columns, list(map(vars, records)))


def time_unit(longest: float) -> tuple[str, float]:
    """The unit of times up to `longest`, and how many of it are a second."""
    return ("ms", 1e3) if longest < 1 else ("s", 1.0)


def time_table(outcome: Outcome, times: Sequence[RoundTime]) -> Table:
    """By round and client: the time of each step."""
    unit, scale = time_unit(max((time.seconds for time in times if time.number >= 0), default=0.0))
    log: dict[int, list[Played]] = {}
    for record in outcome.log:
        log.setdefault(record.round, []).append(record)
    devices = {time.number: outcome.config.devices(time.number) for time in times}
    drawn = [(time.number, bar) for time in times for bar in bars(time, log[time.number], devices[time.number])]
    steps = [step for step in STEPS if step in ALWAYS or any(bar.seconds[step] for _, bar in drawn)]
    rows = [
        [
            number,
            bar.client,
            outcome.config.device_name(bar.client, number),
            devices[number][bar.client].bandwidth,
            *(_short(scale * bar.seconds[step]) for step in steps),
        ]
        for number, bar in drawn
    ]
    fields = [
        Field("round", "round (-1: set-up)", "whole"),
        Field("client", "client", "whole"),
        Field("device", "device", "text"),
        Field("bandwidth", "MB/s"),
        *(Field(step, f"{step}, {unit}") for step in steps),
    ]
    return Table("Device time of each client in each round", fields, rows)


def traffic_table(outcome: Outcome) -> Table:
    """By round: megabytes of all clients, and the most of one client."""
    rounds: dict[int, list[ClientRecord]] = {}
    for record in clients_of(outcome.log):
        if record.counts:
            rounds.setdefault(record.round, []).append(record)
    rows = []
    for number, records in sorted(rounds.items()):
        up, down = (
            [(size or 0) / 1e6 for size in sizes]
            for sizes in ((each.bytes_up for each in records), (each.bytes_down for each in records))
        )
        rows.append([round_name(number), _short(sum(up)), _short(sum(down)), _short(max(up)), len(records)])
    fields = (
        Field("round", "round", "text"),
        Field("up", "up, MB"),
        Field("down", "down, MB"),
        Field("most", "most of one client up, MB"),
        Field("clients", "clients", "whole"),
    )
    return Table("Communication of each round", fields, rows)


def map_table(seen: Seen) -> Table:
    """Each client's position on the map."""
    fields = (
        Field("client", "client", "whole"),
        Field("cluster", "cluster", "whole"),
        Field("x", "first component"),
        Field("y", "second component"),
    )
    labels = seen.outcome.labels
    places = sorted(
        (client, place) for client, place in seen.places.items() if client < len(labels) and labels[client] >= 0
    )
    return Table(
        "Positions of the clients on the map", fields, [[client, labels[client], *at] for client, at in places]
    )


def layer_table(outcome: Outcome) -> Table | None:
    """By layer, round and client: the encrypted share; None if the records have no layers."""
    counted = [(each, each.layers) for each in outcome.played if each.layers is not None and _are_sizes(each.layers)]
    if not counted:
        return None
    grouped = len(counted[0][1]) > MOST_LAYERS
    cells: dict[tuple[str, int, str], list[Any]] = {}  # encrypted and all parameters, of which clients
    by_client = len(counted) * len(counted[0][1]) <= MOST_CELLS
    for record, layers in counted:
        for name, (encrypted, size) in layers.items():
            layer = name.rpartition(".")[0] if grouped else name
            for who in (ALL_CLIENTS, f"client {record.client}") if by_client else (ALL_CLIENTS,):
                cell = cells.setdefault((who, record.round, layer), [0, 0, set()])
                cell[0] += encrypted
                cell[1] += size
                cell[2].add(record.client)
    fields = (
        Field("client", "client", "text"),
        Field("round", "round", "whole"),
        Field("layer", "layer", "text"),
        Field("encrypted", "encrypted", "share"),
        Field("size", "parameters", "whole"),
    )
    rows = [
        [who, number, layer, round(encrypted / size, 4), size // len(clients)]
        for (who, number, layer), (encrypted, size, clients) in cells.items()
    ]
    return Table("Encrypted share of each layer", fields, rows)


def attack_table(attacks: dict[str, list[dict[str, Any]]]) -> Table:
    """Rows of `sensecrypt attack --json`."""
    figures = (
        Field("irec", "labels found (IRec)", "share"),
        Field("leacc", "classes found (LeAcc)", "share"),
        Field("lnacc", "counts found (LnAcc)", "share"),
        Field("distance", "distance of histograms"),
        Field("psnr", "PSNR of images, dB"),
        Field("share", "encrypted", "share"),
    )
    rows: list[list[Any]] = [
        [
            name,
            str(row["adversary"]),
            str(row.get("role", row.get("policy", ""))),
            *(_number(row.get(f.name)) for f in figures),
        ]
        for name, found in attacks.items()
        for row in found
    ]
    kept = [place for place, _ in enumerate(figures) if any(row[3 + place] is not None for row in rows)]
    fields = (
        Field("file", "file", "text"),
        Field("adversary", "attack", "text"),
        Field("role", "attacker, or policy", "text"),
        *(figures[place] for place in kept),
    )
    return Table("Results of attacks", fields, [[*row[:3], *(row[3 + place] for place in kept)] for row in rows])


def column(table: Table, name: str) -> list[Any]:
    """The values of one column."""
    place = [field.name for field in table.fields].index(name)
    return [row[place] for row in table.rows]


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in the order of appearance."""
    return list(dict.fromkeys(values))


def _are_sizes(layers: dict[str, list[int]]) -> bool:
    return all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, int) for each in pair) and pair[1] > 0
        for pair in layers.values()
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _short(value: float) -> float:
    """Five significant digits, to keep the page small."""
    return float(f"{value:.5g}")
