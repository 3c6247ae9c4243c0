"""An item without any work in it."""

from __future__ import annotations

from pathlib import Path

from sensecrypt.lab.drawing import sheet
from sensecrypt.lab.experiments.charts import bars
from sensecrypt.lab.experiments.item import Cell, Item, Verdict
from sensecrypt.lab.experiments.saved import Saved
from sensecrypt.lab.experiments.specs import Scaled

SCALED = Scaled("quick", {"values": [1, 2, 3], "dataset": "digits"}, ("smaller",))


class Counting:
    """Measures squares, remembers what it was asked for, and fails where it is told to."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.asked: list[int] = []
        self.fail_at = fail_at

    def cell(self, value: int) -> Cell:
        def measure(folder: Path) -> list[dict[str, object]]:
            assert folder.is_dir()
            self.asked.append(value)
            if value == self.fail_at:
                raise KeyboardInterrupt
            return [{"value": value, "square": float(value * value), "nothing": float("nan")}]

        return Cell(f"value-{value}", 1.5, measure)

    @property
    def item(self) -> Item:
        return Item(
            "toy",
            "Squares",
            "Appendix Z",
            lambda spec: [self.cell(value) for value in spec["values"]],
            draw,
            judge,
        )


def draw(rows):
    figure, [axes] = sheet("Squares", panels=1, size=(4, 3))
    bars(axes, [str(row["value"]) for row in rows], {"square": [row["square"] for row in rows]}, ylabel="square")
    return figure


def judge(rows):
    right = all(row["square"] == row["value"] ** 2 for row in rows)
    return [Verdict("squares | are squares", f"{len(rows)} of them", "reproduced" if right else "not reproduced")]


def saved_toy(**changes) -> Saved:
    rows = [{"value": value, "square": float(value * value)} for value in (1, 2, 3)]
    whole = {"item": "toy", "scale": "quick", "settings": {"values": [1, 2, 3]}, "differs": ["smaller"]}
    return Saved(**(whole | {"machine": {"cores": "2"}, "day": "2026-01-02", "seconds": 1.0, "rows": rows} | changes))
