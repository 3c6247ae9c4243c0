"""The main evaluation: time, accuracy and communication of all methods in the paper's three scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from sensecrypt.compare.comparison import compare
from sensecrypt.compare.contestants import Contestant, parse_contestants
from sensecrypt.compare.scenarios import SCENARIOS, scenario_settings
from sensecrypt.config import RunConfig
from sensecrypt.drawing import colour_of, legend, log_axis, number, sheet
from sensecrypt.experiments.item import Cell, Item, Outcome, Row, Rows, Spec, Verdict
from sensecrypt.profiles import get_profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS, AHEAD = "our default", "our default, ahead"
METHODS = {
    "Plaintext": "plaintext",
    "Baseline": "full",
    "MaskCrypt": "maskcrypt@paper",
    "SenseCrypt": "sensecrypt@paper",
    OURS: "sensecrypt",
    AHEAD: "sensecrypt+randomness=ahead",
}
PAPERS = ("Plaintext", "Baseline", "MaskCrypt", "SenseCrypt")
WAYS = ("bytes_up", "bytes_down")
STATISTICAL, SYSTEM, BOTH = "statistical", "system", "statistical+system"
CLASSES = 10  # of both data sets
LEARNT = 0.05  # above one answer for all that counts as having learnt
NORMAL = 0.02  # below the accuracy on IID data that still counts as its level
_TRAINING = {"cifar-10": 13.0, "fashion-mnist": 1.0}  # seconds that all clients take for an epoch
_ENCRYPTING = {"cifar-10": 75.0, "fashion-mnist": 32.0}  # seconds that all clients take for the whole model

_TOTALS = (
    *("device_seconds", "device_seconds_ours", "setup_seconds", "encrypted_share", "union_share", "accuracy_mean"),
    *("bytes_up", "bytes_down", "clusters", "crypto", "implementation"),
)
Place = tuple[str, str]  # scenario and data set


class _Calibrated(Contestant):
    """Charged at measured prices whatever holds for the others."""

    def configure(self, common: dict[str, Any], crypto: str) -> RunConfig:  # noqa: ARG002 (not asked)
        """The run."""
        return super().configure(common, "calibrated")


def cells(spec: Spec) -> list[Cell]:
    """A comparison for each scenario and data set."""
    return [
        Cell(f"{scenario}-{dataset}", _seconds(spec, scenario, place), partial(_measure, spec, scenario, place))
        for scenario in spec["scenarios"]
        for place, dataset in enumerate(spec["datasets"])
    ]


def _seconds(spec: Spec, scenario: str, place: int) -> float:
    dataset, rounds, epochs = (spec[key][place] for key in ("datasets", "rounds", "local_epochs"))
    trained = 1 if scenario == SYSTEM else 2  # clusters train other models
    real = (rounds + 1) * _ENCRYPTING[dataset] if f"{scenario}-{dataset}" in spec["real"] else 0.0
    return float(15.0 + rounds * (trained * (epochs + 1) * _TRAINING[dataset] + 10.0) + real)


def _measure(spec: Spec, scenario: str, place: int, folder: Path) -> list[Row]:
    dataset, rounds, epochs = (spec[key][place] for key in ("datasets", "rounds", "local_epochs"))
    settings = scenario_settings(
        scenario, dataset, {"rounds": rounds, "local_epochs": epochs, "seed": spec["seed"], "clients": spec["clients"]}
    )
    contestants = parse_contestants(",".join(METHODS.values()), "default")
    if f"{scenario}-{dataset}" not in spec["real"]:
        contestants[-2] = _Calibrated(**vars(contestants[-2]))
    contestants[-1] = _Calibrated(**vars(contestants[-1]))  # the same ciphertexts, made earlier
    report = compare(scenario, contestants, settings, folder, resume=True)
    rows: list[Row] = []
    for method, row in zip(METHODS, report["rows"], strict=True):
        where: Row = {"scenario": scenario, "dataset": dataset, "method": method}
        rows += [{**where, **each} for each in row["rounds"]]
        rows.append({**where, "round": None, "clients": report["clients"], **{key: row[key] for key in _TOTALS}})
    return rows


class _Found:
    """The rows, looked up by scenario, data set and method."""

    def __init__(self, rows: Rows) -> None:
        self.scenarios, self.datasets = (
            list(dict.fromkeys(row[key] for row in rows)) for key in ("scenario", "dataset")
        )
        self.places: list[Place] = list(dict.fromkeys((row["scenario"], row["dataset"]) for row in rows))
        self._totals: dict[tuple[Place, str], Mapping[str, Any]] = {}
        self._rounds: dict[tuple[Place, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            key = (row["scenario"], row["dataset"]), row["method"]
            if row["round"] is None:
                self._totals[key] = row
            else:
                self._rounds.setdefault(key, []).append(row)

    def rounds(self, place: Place, method: str) -> list[Mapping[str, Any]]:
        """The rounds of a method, in order."""
        return sorted(self._rounds[place, method], key=lambda row: int(row["round"]))

    def total(self, place: Place, method: str, key: str = "device_seconds") -> Any:
        """A figure of all rounds together."""
        return self._totals[place, method][key]

    def sent(self, place: Place, method: str, way: str) -> float:
        """Megabytes a round."""
        return fmean(row[way] for row in self._rounds[place, method]) / 1e6

    def by_time(self, place: Place) -> list[str]:
        """The paper's methods, fastest first."""
        return sorted(PAPERS, key=lambda name: float(self.total(place, name)))

    def by_bytes(self, place: Place) -> list[str]:
        """The paper's methods, by what they send, least first."""
        return sorted(PAPERS, key=lambda name: sum(self.sent(place, name, way) for way in WAYS))


def draw(rows: Rows) -> Figure:
    """A row of panels a scenario: training time, accuracy on each data set, communication."""
    found = _Found(rows)
    across, datasets = 2 + len(found.datasets), found.datasets
    size = (3.4 * across, 3.1 * len(found.scenarios) + 0.8)
    title = "Training time, accuracy and communication in each scenario"
    figure, panels = sheet(title, panels=across * len(found.scenarios), size=size, columns=across)
    seconds = [found.total(place, name) for place in found.places for name in METHODS]
    sent = [found.sent(place, name, way) for place in found.places for name in METHODS for way in WAYS]
    for line, scenario in enumerate(found.scenarios):
        first, *middle, last = panels[line * across : (line + 1) * across]
        times = {name: [found.total((scenario, each), name) for each in datasets] for name in METHODS}
        _columns(first, datasets, times, seconds)
        first.set(title=f"{scenario}:\ntraining time", ylabel="device seconds, all rounds")
        for axes, dataset in zip(middle, datasets, strict=True):
            _accuracy(axes, {name: found.rounds((scenario, dataset), name) for name in METHODS}, chance(scenario))
            axes.set_title(f"{scenario}:\naccuracy, {dataset}")
        up, down = (
            {name: [found.sent((scenario, each), name, way) for each in datasets] for name in METHODS} for way in WAYS
        )
        _columns(last, datasets, up, sent, lines=down)
        last.set(title=f"{scenario}: communication\n(bar: up; black line: down)", ylabel="MB a round, all clients")
    legend(figure, {name: (colour_of(place), False) for place, name in enumerate(METHODS)})
    return figure


def _columns(
    axes: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    every: Sequence[float],
    *,
    lines: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Upright bars on a logarithmic axis that all scenarios share, the value in words above each."""
    log_axis(axes, "y", every)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.25)  # room for the words
    wide = 0.84 / len(series)
    for place, (name, values) in enumerate(series.items()):
        for group, value in enumerate(values):
            x = group + (place - (len(series) - 1) / 2) * wide
            axes.bar(x, value, 0.9 * wide, color=colour_of(place))
            top = value
            if lines is not None:
                axes.hlines(lines[name][group], x - wide / 2, x + wide / 2, color="black", linewidth=1.6)
                top = max(value, lines[name][group])
            axes.annotate(
                number(value),
                (x, top),
                (0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=90,
                size=8,
            )
    axes.set_xticks(range(len(groups)), list(groups))
    axes.grid(axis="y")


def _accuracy(axes: Axes, courses: Mapping[str, Sequence[Mapping[str, Any]]], guess: float) -> None:
    """Mean of the clients, shade from worst to best; methods that train the same models share a line."""
    drawn: dict[tuple[float, ...], list[str]] = {}
    for name, course in courses.items():
        drawn.setdefault(tuple(row["accuracy_mean"] for row in course), []).append(name)
    for names in drawn.values():
        course, colour = courses[names[0]], colour_of(list(courses).index(names[0]))
        rounds = [row["round"] + 1 for row in course]
        least, mean, most = ([100 * row[f"accuracy_{end}"] for row in course] for end in ("min", "mean", "max"))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        axes.plot(rounds, mean, color=colour, marker="o", markersize=4, label=f"{names[0]}{more}")
        if len(rounds) > 1:
            axes.fill_between(rounds, least, most, color=colour, alpha=0.18, linewidth=0)
        else:
            axes.vlines(rounds, least, most, color=colour, alpha=0.3, linewidth=8)  # a shade needs two rounds
    axes.axhline(100 * guess, color="black", linestyle=":", linewidth=1.2, label="one answer for all")
    axes.set(xlabel="round", ylabel="accuracy, %", ylim=(0, 150), yticks=range(0, 101, 20))  # room for the legend
    axes.locator_params(axis="x", nbins=6, integer=True, min_n_ticks=1)
    axes.grid(visible=True)
    axes.legend(fontsize=8, loc="upper left")


def judge(rows: Rows) -> list[Verdict]:
    """The paper's statements one by one, then what the default preset does."""
    found = _Found(rows)
    uneven = [place for place in found.places if place[0] in (SYSTEM, BOTH)]
    even = [place for place in found.places if place[0] == STATISTICAL]
    return [
        *([_saving(found, uneven, "MaskCrypt", "58.4 % to 62.7 %", 0.584)] if uneven else []),
        *([_saving(found, uneven, "Baseline", "81.4 % to 88.7 %", 0.814)] if uneven else []),
        *([_shorter(found, even)] if even else []),
        *_multiples(found, uneven),
        *_smaller_unions(found),
        *_accuracies(found),
        *_communication(found),
        _ours(found),
    ]


def _saving(found: _Found, places: Sequence[Place], other: str, claim: str, least: float) -> Verdict:
    cuts = [1 - found.total(place, "SenseCrypt") / found.total(place, other) for place in places]
    return Verdict(
        f"with uneven devices SenseCrypt takes {claim} less time than {other}",
        _list(places, [f"{abs(cut):.1%} {'less' if cut >= 0 else 'more'}" for cut in cuts]),
        _graded(min(cuts) >= least, min(cuts) > 0),
    )


def _shorter(found: _Found, places: Sequence[Place]) -> Verdict:
    ratios = [found.total(place, "SenseCrypt") / found.total(place, "MaskCrypt") for place in places]
    shares = [[found.total(place, name, "encrypted_share") for name in ("SenseCrypt", "MaskCrypt")] for place in places]
    words = [
        f"{ratio:.0%} of it (a client encrypts {mine:.0%}, {other:.0%} in MaskCrypt)"
        for ratio, (mine, other) in zip(ratios, shares, strict=True)
    ]
    return Verdict(
        "on even devices, too, SenseCrypt takes less time than MaskCrypt",
        _list(places, words),
        _graded(max(ratios) < 1, min(ratios) < 1),
    )


def _multiples(found: _Found, places: Sequence[Place]) -> list[Verdict]:
    times = [found.total(place, "MaskCrypt") / found.total(place, "Plaintext") for place in places]
    enough = [each > (33 if place[1] == "cifar-10" else 20) for each, place in zip(times, places, strict=True)]
    orders = [found.by_time(place) for place in found.places]
    right = sum((order[0], order[-1]) == ("Plaintext", "Baseline") for order in orders)
    verdicts = [
        Verdict(
            "Plaintext is always fastest, Baseline always slowest",
            f"so in {right} of {len(orders)} comparisons",
            _graded(right == len(orders), right > len(orders) / 2),
        )
    ]
    if places:
        verdicts.append(
            Verdict(
                "with uneven devices MaskCrypt takes more than 33 times (CIFAR-10) and 20 times (FMNIST) as long as "
                "Plaintext",
                _list(places, [f"{number(each)} times" for each in times]),
                _graded(all(enough), min(times) > 2),
            )
        )
    return verdicts


def _smaller_unions(found: _Found) -> list[Verdict]:
    whole = [each for each in found.datasets if {(SYSTEM, each), (BOTH, each)} <= set(found.places)]
    if not whole:
        return []
    ratios, words = [], []
    for dataset in whole:
        for method in ("MaskCrypt", "SenseCrypt"):
            one, five = (SYSTEM, dataset), (BOTH, dataset)
            ratios.append(found.total(five, method) / found.total(one, method))
            unions = " and ".join(f"{found.total(place, method, 'union_share'):.0%}" for place in (one, five))
            words.append(f"{dataset}, {method}: {ratios[-1]:.0%} of the time, unions {unions}")
    return [
        Verdict(
            "both take slightly less time in statistical+system than in system, as the union of 5 clients' masks is "
            "smaller than that of 20",
            "; ".join(words),
            _graded(min(ratios) > 0.7 and max(ratios) < 1, max(ratios) < 1),
        )
    ]


def _accuracies(found: _Found) -> list[Verdict]:
    """Above the others, as on IID data, and as fast: only where networks have learnt more than one class to answer."""
    places = [place for place in found.places if place[0] != SYSTEM]
    if not places:
        return []
    ours = {place: found.total(place, "SenseCrypt", "accuracy_mean") for place in places}
    best = {place: max(found.total(place, name, "accuracy_mean") for name in PAPERS[:3]) for place in places}
    told = [place for place in places if ours[place] > chance(place[0]) + LEARNT]
    gaps = [ours[place] - best[place] for place in told]
    words = [f"{ours[place]:.1%} against {best[place]:.1%}" for place in places]
    note = f"one answer for all gives {chance(places[0][0]):.1%} in a cluster, {chance(SYSTEM):.0%} else"
    if len(told) < len(places):
        note += f"; no more is learnt in {len(places) - len(told)} of {len(places)}"
    verdicts = [
        Verdict(
            "where data differ, SenseCrypt ends significantly above Plaintext, MaskCrypt and Baseline",
            f"{_list(places, words)}; {note}",
            _graded(told == places and min(gaps) > 0.05, bool(told) and min(gaps) > 0),
        ),
        _convergence(found, told),
    ]
    if {(SYSTEM, dataset) for _, dataset in places} <= set(found.places):
        iid = {place: found.total((SYSTEM, place[1]), "Plaintext", "accuracy_mean") for place in places}
        fair = [place for place in told if iid[place] > chance(SYSTEM) + LEARNT]
        behind = [ours[place] - iid[place] for place in fair]
        verdicts.append(
            Verdict(
                "SenseCrypt always reaches the level of IID data",
                f"{_list(places, [f'{ours[place]:.1%} (IID: {iid[place]:.1%})' for place in places])}; {note}",
                _graded(fair == places and min(behind) >= -NORMAL, bool(fair) and min(behind) >= -0.1),
            )
        )
    return verdicts


def _convergence(found: _Found, places: Sequence[Place]) -> Verdict:
    """By the rounds to 95 % of a method's own best: clusters start higher, which is no speed."""
    need = []
    for place in places:
        plain, mine = (found.rounds(place, name) for name in ("Plaintext", "SenseCrypt"))
        if len(plain) > 2:
            need.append((place, _first(plain), _first(mine)))
    words = [f"{own} (Plaintext {one})" for _, one, own in need]
    return Verdict(
        "SenseCrypt converges about as fast as Plaintext",
        f"rounds to 95 % of its own best accuracy: {_list([place for place, *_ in need], words)}"
        if need
        else "too few rounds to tell",
        _graded(
            bool(need) and all(own <= one for _, one, own in need),
            bool(need) and all(own <= one + 2 for _, one, own in need),
        ),
    )


def _first(course: Sequence[Mapping[str, Any]]) -> int:
    """How many rounds it takes to 95 % of the best accuracy."""
    goal = 0.95 * max(row["accuracy_mean"] for row in course)
    return 1 + next(place for place, row in enumerate(course) if row["accuracy_mean"] >= goal)


def chance(scenario: str) -> float:
    """The accuracy of one answer for all of a client's samples; its classes are equally frequent."""
    kind, _, groups = str(SCENARIOS[scenario].settings["partition"]).partition(":")
    if kind != "categories":
        return 1 / CLASSES
    return fmean(1 / len(part) for part in np.array_split(range(CLASSES), int(groups)))


def _communication(found: _Found) -> list[Verdict]:
    """Also against the union as ciphertexts, which clients would receive if they opened it themselves."""
    cipher = get_profile("paillier-2048-scalar").ciphertext_bytes
    words, less, shape = [], [], []
    for place in found.places:
        up, down = (found.sent(place, "SenseCrypt", way) for way in WAYS)
        models = found.sent(place, "Plaintext", "bytes_down")  # 4 bytes a parameter
        union = found.total(place, "SenseCrypt", "union_share") * models * cipher / 4
        words.append(f"{number(up)} MB up, {number(down)} MB down, the union as ciphertexts {number(union)} MB")
        less.append(up < 0.8 * down)
        shape.append(up < 0.8 * union)
    same = sum(found.by_time(place) == found.by_bytes(place) for place in found.places)
    return [
        Verdict(
            "SenseCrypt always sends much less up than down, unlike the others",
            f"{_list(found.places, words)}; our key server hands the model out opened",
            _graded(all(less), all(shape)),
        ),
        Verdict(
            "communication is generally consistent with training time",
            f"methods stand in the same order by bytes as by time in {same} of {len(found.places)} comparisons",
            _graded(same == len(found.places), same > len(found.places) / 2),
        ),
    ]


def _ours(found: _Found) -> Verdict:
    """The default preset: how much it encrypts, and what that costs."""
    words, better = [], []
    for place in found.places:
        share = {name: found.total(place, name, "encrypted_share") for name in METHODS}
        seconds = {name: found.total(place, name) for name in METHODS}
        times = {name: f"{number(seconds[name] / seconds['Plaintext'])} times" for name in METHODS}
        words.append(
            f"{share[OURS]:.0%} encrypted ({found.total(place, OURS, 'crypto')}) in {times[OURS]} Plaintext's time, "
            f"{times[AHEAD]} with randomness ahead; SenseCrypt {share['SenseCrypt']:.0%} in {times['SenseCrypt']}, "
            f"Baseline 100% in {times['Baseline']}"
        )
        better.append(share[OURS] > share["SenseCrypt"] and seconds[OURS] < seconds["SenseCrypt"])
    return Verdict(
        "ours: does the default preset encrypt more than the paper's SenseCrypt in less time?",
        "; ".join(f"{' '.join(place)}: {word}" for place, word in zip(found.places, words, strict=True)),
        "beyond" if all(better) else "not reproduced",
    )


def _list(places: Sequence[Place], words: Sequence[str]) -> str:
    return ", ".join(f"{' '.join(place)}: {word}" for place, word in zip(places, words, strict=True))


def _graded(holds: bool, shape: bool) -> Outcome:
    return "reproduced" if holds else "reproduced in shape" if shape else "not reproduced"


ITEM = Item(
    "scenarios",
    "Methods in three scenarios: time, accuracy, communication",
    "Performance in heterogeneity scenarios",
    lambda spec: list(spec["datasets"]),
    cells,
    draw,
    judge,
)
