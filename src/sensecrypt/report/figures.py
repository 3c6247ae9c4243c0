"""The parts of a page: cards, tables, charts, sections. No HTML, no files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["text", "whole", "share", "number"]
Spec = dict[str, Any]


Column = tuple[str, str, Kind, str | Callable[[Any], Any]]


@dataclass(frozen=True)
class Field:
    """A column of a table.

    Attributes:
        name: the key in charts.
        title: its heading, with the unit.
        kind: the format of its values.
    """

    name: str
    title: str
    kind: Kind = "number"


@dataclass(frozen=True)
class Table:
    """The values of a chart, also shown as a table.

    Attributes:
        caption: what it holds.
        fields: its columns.
        rows: one value per column, or None.
    """

    caption: str
    fields: Sequence[Field]
    rows: Sequence[Sequence[Any]]

    def to_json(self) -> dict[str, Any]:
        """For the page; NaN becomes null."""
        return {
            "caption": self.caption,
            "fields": [vars(each) for each in self.fields],
            "rows": [[_plain(value) for value in row] for row in self.rows],
        }


def tabled(caption: str, columns: Sequence[Column], items: Iterable[Any]) -> Table:
    """A table with a row per item.

    Args:
        caption: what it holds.
        columns: name, title, kind, and the value: a key of the item, or a function of it.
        items: in the order of the rows.
    """
    rows = [[of(item) if callable(of) else item.get(of) for *_, of in columns] for item in items]
    return Table(caption, [Field(name, title, kind) for name, title, kind, _ in columns], rows)


@dataclass(frozen=True)
class Picker:
    """A control that filters the table of a chart.

    Attributes:
        label: of the control.
        field: the column that it filters by; the chart's parameter `chosen` takes the value.
        options: values and their names.
        start: the first value shown.
        slides: a slider instead of a list.
    """

    label: str
    field: str
    options: Sequence[tuple[Any, str]]
    start: Any
    slides: bool = False

    @property
    def place(self) -> int:
        """The index of `start`."""
        return [value for value, _ in self.options].index(self.start)


@dataclass(frozen=True)
class Chart:
    """One picture.

    Attributes:
        name: unique on the page.
        title: above it.
        says: what it shows, also for screen readers.
        table: name of its table.
        spec: Vega-Lite, without data; strings that start with `--` are colours of the page's style sheet.
        legend: texts and colours.
        ramp: texts at the ends of its colour scale.
        picker: a control above it.
    """

    name: str
    title: str
    says: str
    table: str
    spec: Spec
    legend: Sequence[tuple[str, str]] = ()
    ramp: tuple[str, str] | None = None
    picker: Picker | None = None


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        name: unique on the page.
        title: its heading.
        text: below the heading.
        charts: its charts.
        missing: which chart is missing, and how to get it.
    """

    name: str
    title: str
    text: str
    charts: Sequence[Chart] = ()
    missing: str = ""


@dataclass(frozen=True)
class Card:
    """A key figure: title, value, second line."""

    title: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: of the page.
        subtitle: below it.
        state: `finished`, `running`, `waiting` or `failed`.
        status: the state in words.
        warning: shown above everything else.
        cards: key figures.
        findings: sentences below the cards.
        sections: in their order.
        tables: by name, for the charts.
        command: that repeats the run.
        note: about the command.
        settings: names and values.
        links: texts, addresses and second lines of related pages.
    """

    title: str
    subtitle: str
    state: Literal["finished", "running", "waiting", "failed"]
    status: str
    warning: str = ""
    cards: Sequence[Card] = ()
    findings: Sequence[str] = ()
    sections: Sequence[Section] = ()
    tables: dict[str, Table] = field(default_factory=dict)
    command: str = ""
    note: str = ""
    settings: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str, str]] = ()

    @property
    def charts(self) -> list[Chart]:
        """All charts."""
        return [chart for section in self.sections for chart in section.charts]

    def to_json(self) -> dict[str, Any]:
        """Charts and tables for the page's script."""
        charts = {
            chart.name: {
                "spec": {**chart.spec, "description": chart.says, "data": {"name": chart.table}},
                "table": chart.table,
                "picker": None if chart.picker is None else _picker(chart.picker),
            }
            for chart in self.charts
        }
        used = {chart.table for chart in self.charts}
        return {"charts": charts, "tables": {name: self.tables[name].to_json() for name in sorted(used)}}


def _picker(picker: Picker) -> dict[str, Any]:
    return {"field": picker.field, "options": [list(option) for option in picker.options]}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
