"""All items by id, in the order of the paper, with our own at the end."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module

from sensecrypt.errors import InvalidInput
from sensecrypt.lab.experiments.item import Item

_MODULES = (
    "scenarios",
    "cost_efficiency",
    "extreme_devices",
    "uneven_data",
    "imbalance",
    "divergence",
    "similarity",
    "b_and_c",
    "noisy_clustering",
    "strategies",
    "two_servers",
    "collusion",
    "schemes",
    "components",
    "taylor",
    "fedml_he",
    "reconstruction",
    "anchors",
    "ladder",
    "layouts",
    "frontier",
)
ITEMS: dict[str, Item] = {
    item.id: item for item in (import_module(f"sensecrypt.lab.experiments.{name}").ITEM for name in _MODULES)
}


def find_items(names: Sequence[str]) -> list[Item]:
    """The items with these names; `all` names all of them."""
    if "all" in names:
        return list(ITEMS.values())
    for name in names:
        if name not in ITEMS:
            near = difflib.get_close_matches(name, ITEMS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "`sensecrypt reproduce --list` shows all items"
            raise InvalidInput("item", f"there is no {name!r}", hint)
    return [ITEMS[name] for name in dict.fromkeys(names)]
