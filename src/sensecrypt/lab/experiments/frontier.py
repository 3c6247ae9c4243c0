"""Our own: the cost of protection. Device seconds of a round against the attacks on the weakest client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sensecrypt.lab.assess.protection import Protection
from sensecrypt.lab.assess.setting import COLLUSION, NAMES
from sensecrypt.lab.assess.table import attack_rows
from sensecrypt.lab.drawing import Axes, Figure, colour_of, legend_below, log_axis, number, sheet
from sensecrypt.lab.experiments.comparing import compared, run_settings
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.models import DEFAULT_MODEL

PAPER, OURS, PLAIN = "preset paper, python-paillier", "our default", "our default, rest plain"
ALONE = tuple(name for name in NAMES if name not in ("prior", COLLUSION))
NOTHING = 0.02  # a gain of LnAcc over guessing that counts as none, if chance does not explain more
CLEAR = 0.25  # the least loss of LnAcc, from the unprotected client's, that counts


def cells(spec: Spec) -> list[Cell]:
    """One cell per family, with its own plaintext run."""
    each = 4.0 * spec["rounds"] + 0.4 * spec["seeds"]
    return [
        Cell(name, 20.0 + len(_points_to_run(spec, family)) * each, partial(_measure, spec, family))
        for name, family in (("paper", PAPER), ("ours", OURS), ("plain", PLAIN))
    ]


def _points_to_run(spec: Spec, family: str) -> dict[str, str]:
    """The methods to run, by their names in the picture."""
    if family == PAPER:
        fixed = {f"{share:.0%} each": f"high_sensitivity@paper+ratio={share}" for share in spec["shares"]}
        return {**fixed, "budgets": "sensecrypt@paper", "everything": "full"}
    rest = "+rest=plain" if family == PLAIN else ""
    graces = {f"{grace:g} s": f"sensecrypt+slack=0+grace={grace}{rest}" for grace in spec["graces"]}
    if family == PLAIN:
        return graces
    return {"blinding only": "plaintext+rest=blinded", **graces, "everything": "full@default"}


def _measure(spec: Spec, family: str, folder: Path) -> list[Row]:
    points = _points_to_run(spec, family)
    methods = ["plaintext", *points.values()]
    report = compared(spec["scenario"], spec["dataset"], methods, run_settings(spec), folder, crypto="calibrated")
    plain = report["rows"][0]["rounds"][-1]["seconds"]
    rows: list[Row] = []
    known: dict[Protection, list[dict[str, Any]]] = {}
    for point, row in zip(points, report["rows"][1:], strict=True):
        share = min(each["encrypted_share_min"] for each in row["rounds"])
        # policy sensecrypt chooses the same at a fixed share
        policy = row["policy"] if row["policy"] in ("full", "plaintext") else "sensecrypt"
        protection = Protection(policy, row["preset"], round(share, 3), row["settings"].get("rest"))
        if protection not in known:
            known[protection] = _attack(spec, protection)
        seconds = row["rounds"][-1]["seconds"]
        cost: Row = {"family": family, "point": point, "seconds": seconds, "times_plaintext": seconds / plain}
        cost |= {"weakest_share": share, "encrypted_share": row["encrypted_share"]}
        rows += [{**cost, **{key: found[key] for key in _FIGURES}} for found in known[protection]]
    return rows


_FIGURES = ("adversary", "policy", "preset", "rest", "seeds", "leacc", "lnacc", "lnacc_half", "irec", "irec_half")


def _attack(spec: Spec, protection: Protection) -> list[dict[str, Any]]:
    """Rows of the protection and of the unprotected client."""
    own = {key: spec[key] for key in ("samples", "seeds", "first_seed")}
    attack = partial(attack_rows, protections=[protection], distributions=[spec["distribution"]], workers=2)
    return attack(DEFAULT_MODEL[spec["dataset"]], spec["dataset"], **own)


def _points(rows: Rows, family: str) -> list[dict[str, Any]]:
    """One entry per point: its cost, and the LnAcc of each adversary."""
    points: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["family"] == family and not _is_open(row):
            entry = points.setdefault(row["point"], {**row, "found": {}})
            entry["found"][row["adversary"]] = row["lnacc"]
            entry.setdefault("half", {})[row["adversary"]] = row["lnacc_half"] or 0.0
    return list(points.values())


def _best(point: dict[str, Any], names: Sequence[str]) -> float:
    return float(max(point["found"][name] for name in names if name in point["found"]))


def _strongest(point: dict[str, Any], names: Sequence[str]) -> str:
    """The best LnAcc, with its adversary if there are several."""
    best = _best(point, names)
    who = next(name for name in names if point["found"].get(name) == best)
    return f"{best:.2f}" if len(names) == 1 or best == point["found"]["prior"] else f"{best:.2f} ({who})"


def _prior(rows: Rows) -> float:
    return float(next(row["lnacc"] for row in rows if row["adversary"] == "prior"))


def _open(rows: Rows) -> float:
    return float(max(row["lnacc"] for row in rows if _is_open(row)))


def _is_open(row: Mapping[str, Any]) -> bool:
    return (row["policy"], row["rest"]) == ("plaintext", "plain")


PANELS = {
    "the paper's attacker (zero-fill)": ("zero-fill",),
    "strongest aggregator alone": ALONE,
    "strongest aggregator with a member": (*ALONE, COLLUSION),
}


def draw(rows: Rows) -> Figure:
    """Labels found by cost, one panel per adversary; points show the weakest client's share."""
    title = "What protection costs: labels found against the length of a round"
    figure, panels = sheet(title, panels=3, size=(12.5, 4.6), columns=3)
    families = [family for family in (PAPER, OURS, PLAIN) if _points(rows, family)]
    every = [1.0, *(row["times_plaintext"] for row in rows)]
    prior, plain = _prior(rows), _open(rows)
    for axes, (heading, names) in zip(panels, PANELS.items(), strict=True):
        log_axis(axes, "x", every)
        axes.axhline(prior, color="black", linestyle="--", linewidth=1.2, label="prior")
        axes.plot([1.0], [plain], "*", color="black", markersize=10, label="plaintext")
        for place, family in enumerate(families):
            points = sorted(_points(rows, family), key=lambda point: float(point["times_plaintext"]))
            x, y = [p["times_plaintext"] for p in points], [_best(p, names) for p in points]
            axes.plot(x, y, "o-", color=colour_of(place), markersize=5, linewidth=1, label=family)
            _label_shares(axes, points, x, y, colour_of(place))
        axes.set(title=heading, xlabel="seconds of a round, times plaintext", ylim=(-0.06, 1.12))
        axes.grid(visible=True)
    panels[0].set_ylabel("LnAcc at the weakest client (mean)")
    legend_below(figure, panels[0], columns=5)
    return figure


def _label_shares(
    axes: Axes, points: Sequence[dict[str, Any]], x: Sequence[float], y: Sequence[float], colour: str
) -> None:
    """Write the weakest client's share above or below the points in turn, and skip some where they are dense."""
    written: list[tuple[float, str]] = []
    for point, across, up in zip(points, x, y, strict=True):
        words = f"{point['weakest_share']:.0%}"
        if written and (across < 1.3 * written[-1][0] or words == written[-1][1]):
            continue
        shift = (0, 5 if len(written) % 2 == 0 else -12)
        axes.annotate(words, (across, up), shift, textcoords="offset points", ha="center", fontsize=8, color=colour)
        written.append((across, words))


def judge(rows: Rows) -> list[Verdict]:
    """The results of adversaries in each family, and its cost."""
    paper, ours, bare = (_points(rows, family) for family in (PAPER, OURS, PLAIN))
    prior, plain = _prior(rows), _open(rows)
    reference = f"prior {prior:.2f}, plaintext {plain:.2f}"
    partly = [point for point in paper if point["weakest_share"] < 1]
    most, half = max(_best(each, ("zero-fill",)) for each in partly), (prior + plain) / 2
    whole = [point for point in ours if point["weakest_share"] > 0.999]
    blindings = next(point for point in ours if point["weakest_share"] == 0)
    cheapest = min((point["times_plaintext"] for point in whole), default=float("inf"))
    papers = min(point["times_plaintext"] for point in paper)
    dearest = max(point["times_plaintext"] for point in paper)

    def found(points: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
        return ", ".join(f"{each['weakest_share']:.0%}: {_strongest(each, names)}" for each in points)

    return [
        Verdict(
            "preset paper: does the paper's attacker find less than half as much as without encryption at every share?",
            f"LnAcc of zero-fill, {reference}; {found(partly, ('zero-fill',))}",
            graded(most < half, most <= plain - CLEAR),
        ),
        Verdict(
            "preset paper: is there a share below 100 % at which the aggregator can only guess?",
            f"LnAcc of the strongest, {reference}; {found(partly, ALONE)}",
            graded(any(_hidden(point, ALONE, prior) for point in partly)),
        ),
        Verdict(
            "our default: can every adversary, even an aggregator with a member of the cluster, only guess at every "
            "deadline?",
            f"LnAcc, {reference}; {found(ours, (*ALONE, COLLUSION))}",
            answer(all(_hidden(point, (*ALONE, COLLUSION), prior) for point in ours)),
        ),
        Verdict(
            "our default with rest = plain: can every adversary only guess?",
            f"LnAcc, {reference}; alone {found(bare, ALONE)}; with a member {found(bare, (COLLUSION,))}",
            answer(all(_hidden(point, (*ALONE, COLLUSION), prior) for point in bare)),
        ),
        Verdict(
            "what does blinding cost, with nothing encrypted?",
            f"{blindings['times_plaintext']:.2f} times plaintext",
            answer(_hidden(blindings, (*ALONE, COLLUSION), prior)),
        ),
        Verdict(
            "does encrypting everything by our default cost less than encrypting a part by preset paper?",
            f"100 % at {number(cheapest)} times plaintext; preset paper from {number(papers)} times "
            f"({min(p['weakest_share'] for p in paper):.0%}) to {number(dearest)} times (100 %)",
            answer(cheapest < papers),
        ),
    ]


def _hidden(point: dict[str, Any], names: Sequence[str], prior: float) -> bool:
    """Whether no adversary exceeds guessing by more than chance explains."""
    half = point["half"]
    gains = {name: point["found"][name] - prior for name in names if name in point["found"]}
    return all(gain <= max(NOTHING, half[name] + half["prior"]) for name, gain in gains.items())


ITEM = Item("frontier", "Cost against protection of both presets", "", cells, draw, judge)
