"""What a page is made of: cards, tables, charts and the sections that hold them. No HTML, no files."""

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
        name: as a chart calls it.
        title: as people read it, with its unit.
        kind: how its values are written.
    """

    name: str
    title: str
    kind: Kind = "number"


@dataclass(frozen=True)
class Table:
    """Figures: what a chart draws, and what people may read instead of looking at it.

    Attributes:
        caption: what it holds.
        fields: its columns.
        rows: one value a column; None where there is none.
    """

    caption: str
    fields: Sequence[Field]
    rows: Sequence[Sequence[Any]]

    def to_json(self) -> dict[str, Any]:
        """For the page; JSON has no NaN."""
        return {
            "caption": self.caption,
            "fields": [vars(each) for each in self.fields],
            "rows": [[_plain(value) for value in row] for row in self.rows],
        }


def tabled(caption: str, columns: Sequence[Column], items: Iterable[Any]) -> Table:
    """A table with a row per item.

    Args:
        caption: what it holds.
        columns: name, title, kind, and where an item has the value: a key of it, or a function of it.
        items: in the order of the rows.
    """
    rows = [[of(item) if callable(of) else item.get(of) for *_, of in columns] for item in items]
    return Table(caption, [Field(name, title, kind) for name, title, kind, _ in columns], rows)


@dataclass(frozen=True)
class Picker:
    """A control that chooses what part of a table a chart shows.

    Attributes:
        label: of the control.
        field: the column that it filters by; the chart's parameter `chosen` takes the value.
        options: values, and how they are called.
        start: the value at first.
        slides: a slider for what has an order, a list for the rest.
    """

    label: str
    field: str
    options: Sequence[tuple[Any, str]]
    start: Any
    slides: bool = False

    @property
    def place(self) -> int:
        """Of the first value among the options."""
        return [value for value, _ in self.options].index(self.start)


@dataclass(frozen=True)
class Chart:
    """One picture.

    Attributes:
        name: unique on the page.
        title: above it.
        says: what it shows, for those who do not see it.
        table: the name of the table that it draws.
        spec: Vega-Lite, without data; strings that start with `--` are colours of the page's style sheet.
        legend: what a colour means: text and colour.
        ramp: what the ends of a colour scale mean, if it has one.
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
        text: what to look for.
        charts: in it.
        missing: which chart there is not, and how to get it.
    """

    name: str
    title: str
    text: str
    charts: Sequence[Chart] = ()
    missing: str = ""


@dataclass(frozen=True)
class Card:
    """A figure that sums something up: its value, what it is, and a second line."""

    title: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Page:
    """All of it.

    Attributes:
        title: of the page.
        subtitle: below it.
        state: `over`, `going on`, `waiting` or `failed`.
        told: the state in words.
        warning: what nobody should overlook.
        cards: at the top.
        findings: sentences that say what stands out.
        sections: in their order.
        tables: that charts draw, by name.
        command: that makes the same again.
        note: about the command.
        settings: names and values.
        links: texts, addresses and second lines of pages that belong to this one.
    """

    title: str
    subtitle: str
    state: Literal["over", "going on", "waiting", "failed"]
    told: str
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
        """What the page's script needs."""
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
