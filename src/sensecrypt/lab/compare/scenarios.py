"""The paper's scenarios: data and devices ("Experimental Settings", Appendices C and D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sensecrypt.errors import InvalidInput

_UNEVEN = {"cpus": [[24, 16, 12, 10, 8]], "bandwidths": [[50, 45, 40, 35, 30]]}
_EVEN = {"cpus": [[32]], "bandwidths": [[50]]}


@dataclass(frozen=True)
class Scenario:
    """A fleet and its data.

    Attributes:
        what: in words.
        clients: how many it has; a multiple of it where devices and categories repeat.
        repeats: whether a multiple is as good.
        settings: of the run.
    """

    what: str
    clients: int
    repeats: bool
    settings: Mapping[str, Any]


SCENARIOS = {
    "statistical": Scenario(
        "4 categories of data, even devices", 20, True, {"partition": "categories:4", **_EVEN, "rounds": 30}
    ),
    "system": Scenario("IID data, 5 kinds of devices", 20, True, {"partition": "iid", **_UNEVEN, "rounds": 30}),
    "statistical+system": Scenario(
        "4 categories of data, 5 kinds of devices in each",
        20,
        True,
        {"partition": "categories:4", **_UNEVEN, "rounds": 30},
    ),
    "cost-efficiency": Scenario(
        "IID data, devices less alike from round to round",
        5,
        False,
        {
            "partition": "iid",
            "cpus": [[32, 30, 28, 26, 24], [32, 28, 24, 20, 16], [32, 24, 18, 16, 12], [32, 16, 12, 10, 8]],
            "bandwidths": [[50]],
            "rounds": 4,
        },
    ),
    "extreme": Scenario(
        "IID data, devices from 32 processors down to 1",
        8,
        False,
        {"partition": "iid", "cpus": [[32, 24, 16, 12, 10, 8, 2, 1]], "bandwidths": [[50]], "rounds": 4},
    ),
    "imbalance": Scenario(
        "IID data, devices from 6 processors down to 1 (Appendix C)",
        6,
        False,
        {"partition": "iid", "cpus": [[6, 5, 4, 3, 2, 1]], "bandwidths": [[50]], "rounds": 3},
    ),
    "divergence": Scenario(
        "even devices of one processor, for partitions of growing divergence (Appendix D)",
        10,
        False,
        {"partition": "iid", "cpus": [[1]], "bandwidths": [[50]], "rounds": 3},
    ),
}
# The paper's B and C are chosen for each data set; AlexNet needs smaller steps than the dense network.
_DATASETS: dict[str, dict[str, Any]] = {"cifar-10": {"B": 2.0, "C": 0.5, "learning_rate": 0.01}}


def scenario_settings(name: str, dataset: str, explicit: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run in a scenario: explicit ones, then those of the data set, then of the scenario."""
    if name not in SCENARIOS:
        raise InvalidInput("scenario", f"is {name!r}", f"choose one of {', '.join(SCENARIOS)}")
    for key, instead in (("policy", "--policies"), ("preset", "--preset"), ("crypto", "--crypto")):
        if key in explicit:
            raise InvalidInput(key, "is not set for a whole comparison", f"use {instead}")
    scenario = SCENARIOS[name]
    clients = str(explicit.get("clients", scenario.clients))
    works = clients == str(scenario.clients)
    if scenario.repeats and clients.isdigit() and int(clients) > 0:
        works = int(clients) % scenario.clients == 0
    if not works:
        fix = f"a multiple of {scenario.clients}" if scenario.repeats else f"{scenario.clients}"
        raise InvalidInput("clients", f"are {clients}, scenario {name} is for {scenario.clients}", f"give {fix}")
    return {
        "dataset": dataset,
        "clients": scenario.clients,
        "local_epochs": 5,
        "server_cpus": 104,  # the paper's server
        **scenario.settings,
        **_DATASETS.get(dataset, {}),
        **explicit,
    }
