"""Attacks under extreme system heterogeneity: devices with 32 to 1 processors, each with its own budget.

One round of nine clients that start from one model. Clients 1 to 8 encrypt what `select` chooses within the paper's
budget, which with equal bandwidths is a client's CPUs divided by the largest number of CPUs; client 9 encrypts nothing.
The paper does not say over which masks its two objectives are normalised. So shares are measured for every reading
(`normalise`), and attacks for the one in the settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from sensecrypt.algo.budget import encryption_budgets
from sensecrypt.algo.selection import Normalise, select
from sensecrypt.data import load_dataset
from sensecrypt.lab.assess.protection import Protection
from sensecrypt.lab.assess.table import attack_rows
from sensecrypt.lab.attacks.cohort import client_of_round
from sensecrypt.lab.attacks.ladder import attack_labels
from sensecrypt.lab.attacks.synthetic import SyntheticClient, samples_at
from sensecrypt.lab.drawing import Axes, Figure, sheet
from sensecrypt.lab.experiments.charts import lines
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import distinct, mean, of_each, where
from sensecrypt.models import build_model, get_vector
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.types import BoolVector

READINGS: tuple[Normalise, ...] = get_args(Normalise)
PAPERS = "zero-fill"  # the attacker of the paper
SMALL, LARGE = "LeNet-5, MNIST", "ResNet-50, CIFAR-100"
LOWEST = {SMALL: 0.031, LARGE: 0.057}  # of the paper's clients
NEAR = 0.1  # relative: how far from the paper's a share may be
LEVEL = 0.01  # relative: a smaller change of a share is no fall
STATIC, NEARLY_STATIC = 0.1, 0.2  # spread of LeAcc over clients
ENOUGH_LABELS = 100  # per client: with fewer, chance alone spreads LeAcc by more than `STATIC`
LOWER = 0.3  # below client 9's LnAcc: the least that is significantly lower
_LABELS = {SMALL: 10, LARGE: 100}
_READS: dict[str, str] = {"all": "all masks", "budget": "masks within the budget", "feasible": "feasible masks"}
_SETTINGS = {SMALL: ("lenet5", "mnist"), LARGE: ("resnet50", "cifar-100")}


def cells(spec: Spec) -> list[Cell]:
    """Rounds of nine clients for each network, and the preset default."""
    found = [Cell(f"lenet5-{run}", 9.0, partial(_round, spec, SMALL, run)) for run in range(spec["runs"])]
    if spec["default_seeds"]:
        found.append(Cell("lenet5-default", 2.0 * spec["default_seeds"], partial(_default_rows, spec)))
    found += [Cell(f"resnet50-{run}", 600.0, partial(_round, spec, LARGE, run)) for run in range(spec["large_runs"])]
    return found


def _round(spec: Spec, network: str, run: int, _folder: Path) -> list[Row]:
    """Rows of all nine clients: their encrypted shares, and the results of attacks."""
    torch.set_num_threads(1)
    model, dataset = _SETTINGS[network]
    seed, large = spec["first_seed"] + run, network == LARGE
    data = load_dataset(dataset)
    cpus = [float(each) for each in spec["cpus"]]
    budgets = encryption_budgets([50.0] * len(cpus), cpus)
    samples, many = spec["large_samples"] if large else spec["samples"], len(cpus) + 1
    dealt = derive_rng(seed, "nine clients").permutation(len(data.train_labels))
    shown = spec["large_attacks"] if large else spec["attacks"]
    public = None
    if "prototype" in shown:
        rest, labels = dealt[many * samples :], data.train_labels
        wanted = [rest[labels[rest] == label][: spec["public_per_class"]] for label in range(data.classes)]
        public = samples_at(data.train_images, labels, np.concatenate(wanted))
    build = partial(build_model, model, seed=derive_seed(seed, "model of nine clients"))
    before, step = get_vector(build()), partial(client_of_round, learning_rate=spec["learning_rate"])
    rows: list[Row] = []
    for place in range(many):
        own = dealt[place * samples : (place + 1) * samples]
        batch = samples_at(data.train_images, data.train_labels, own)
        client = step(build, before, batch, classes=data.classes, public=public)
        hidden = np.zeros(before.size, dtype=bool)
        who: Row = {"network": network, "preset": "paper", "run": run, "cpus": 0.0}
        if place < len(cpus):
            who["cpus"] = cpus[place]
            masks = {}
            for reading in READINGS:
                masks[reading], row = _selected(spec, client, float(budgets[place]), reading)
                rows.append({**who, "kind": "share", "reading": reading, **row})
            hidden = masks[spec["normalise"]]
        rows += [{**who, "reading": spec["normalise"], **row} for row in _attacked(client, hidden, shown)]
    return rows


def _selected(spec: Spec, client: SyntheticClient, budget: float, reading: Normalise) -> tuple[BoolVector, Row]:
    choose = partial(select, objective="balance", on_infeasible="budget", weights=client.observation.before)
    limits = {key: spec[key] for key in ("B", "C", "max_mi", "bins")}
    chosen = choose(client.sensitivity, budget, normalise=reading, **limits)
    hidden = chosen.mask.to_array()
    row: Row = {"share": float(hidden.mean()), "budget": budget, "mi": chosen.mi, "decided_by": chosen.decided_by}
    return hidden, {**row, "feasible": chosen.feasible}


def _attacked(client: SyntheticClient, hidden: BoolVector, names: Sequence[str]) -> Iterator[Row]:
    seen = client.observe(hidden, clear_sensitivity=True)
    for name, scores in attack_labels(seen, client.counts, ("prior", *names)):
        found: Row = {"kind": "attack", "adversary": name, "share": float(hidden.mean()), "seeds": 1}
        yield {**found, "leacc": scores.leacc, "lnacc": scores.lnacc}


def _default_rows(spec: Spec, _folder: Path) -> list[Row]:
    """Attacks on preset default at some shares, and on nothing encrypted; each row gets the nearest budget's CPUs."""
    shares, cpus = spec["default_shares"], [float(each) for each in spec["cpus"]]
    protections = [Protection("sensecrypt", "default", share, "plain") for share in shares]
    attack = partial(attack_rows, *_SETTINGS[SMALL], protections=protections, attacks=spec["default_attacks"])
    rows = attack(samples=spec["samples"], seeds=spec["default_seeds"], first_seed=spec["first_seed"])
    kept: list[Row] = []
    for row in rows:
        nearest = min(cpus, key=lambda each: abs(each / max(cpus) - row["share"]))
        who: Row = {"kind": "attack", "network": SMALL, "preset": "default"}
        who["cpus"] = 0.0 if row["policy"] == "plaintext" else nearest
        kept.append({**who, **{key: row[key] for key in ("adversary", "share", "seeds", "leacc", "lnacc")}})
    return kept


def draw(rows: Rows) -> Figure:
    """The share that clients encrypt in each reading; then every attacker against each client."""
    networks = list(dict.fromkeys((row["network"], row["preset"]) for row in rows))
    size = (17, 3.6 * len(networks))
    figure, panels = sheet("Attacks under extreme system heterogeneity", panels=3 * len(networks), columns=3, size=size)
    for place, (network, preset) in enumerate(networks):
        shares, *others = panels[3 * place : 3 * place + 3]
        own = where(rows, network=network, preset=preset, kind="attack")
        devices = sorted({row["cpus"] for row in own}, key=lambda cpus: -cpus)
        if preset == "paper":
            _draw_shares(shares, rows, network, [cpus for cpus in devices if cpus])
        else:
            shares.axis("off")
        for axes, key, label in zip(others, ("leacc", "lnacc"), ("LeAcc", "LnAcc"), strict=True):
            series = {}
            for adversary in distinct(own, "adversary"):
                seen = {cpus: found for cpus in devices if (found := where(own, adversary=adversary, cpus=cpus))}
                at = [float(devices.index(cpus)) for cpus in seen]
                series[adversary] = (at, [mean(found, key, "seeds") for found in seen.values()])
            lines(axes, series, xlabel="", ylabel=label)
            axes.set_xticks(range(len(devices)), [_called(own, cpus) for cpus in devices], fontsize=8)
            axes.set(title=f"{network}, preset {preset}", ylim=(0, 1.05))
            axes.legend(fontsize=7, loc="lower left" if key == "leacc" else "best")
    return figure


def _draw_shares(axes: Axes, rows: Rows, network: str, clients: Sequence[float]) -> None:
    at = [float(place) for place in range(len(clients))]
    percents = {reading: [100 * share for share in _shares(rows, network, reading)] for reading in READINGS}
    series = {f"normalised over {_READS[reading]}": (at, own) for reading, own in percents.items()}
    series["budget"] = (at, [100 * cpus / max(clients) for cpus in clients])
    lines(axes, series, xlabel="CPUs", ylabel="encrypted, %")
    axes.axhline(100 * LOWEST[network], color="grey", linestyle="--", linewidth=1, label="the paper's lowest")
    axes.set_xticks(at, [f"{cpus:g}" for cpus in clients], fontsize=8)
    axes.set(title=f"{network}: what clients encrypt", yscale="log")
    axes.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    axes.minorticks_off()
    axes.legend(fontsize=7)


def judge(rows: Rows) -> list[Verdict]:
    """The paper's statements about its attacker, then about stronger ones."""
    verdicts: list[Verdict] = []
    for network in distinct(rows, "network"):
        exists, counted = (_course(rows, network, PAPERS, key) for key in ("leacc", "lnacc"))
        open_, guess = (_pair(rows, network, "paper", who) for who in (PAPERS, "prior"))
        beside = f"no encryption {open_[0]:.2f}/{open_[1]:.2f}, guessing {guess[0]:.2f}/{guess[1]:.2f}"
        verdicts += [
            *_ratios(rows, network),
            _static(rows, network, exists, beside),
            Verdict(
                f"{network}: LnAcc is significantly lower than client 9's (no encryption), however low the ratio",
                f"{of_each(counted)} from the fastest to the slowest client (significantly: by at least "
                f"{LOWER:.2f}); {beside}",
                graded(max(counted) <= open_[1] - LOWER),
            ),
            _stronger(rows, network, open_[1], guess[1]),
        ]
    return [*verdicts, *_default(rows)]


def _static(rows: Rows, network: str, exists: Sequence[float], beside: str) -> Verdict:
    runs = distinct(where(rows, kind="attack", network=network, preset="paper", adversary=PAPERS, cpus=0.0), "run")
    labels, spread = _LABELS[network] * len(runs), max(exists) - min(exists)
    return Verdict(
        f"{network}: LeAcc remains almost static, however low the ratio",
        f"{of_each(exists)} from the fastest to the slowest client, {labels} labels each, a spread of {spread:.2f} "
        f"(static: at most {STATIC:.2f}; in shape: at most {NEARLY_STATIC:.2f}; too little to tell: fewer than "
        f"{ENOUGH_LABELS} labels); {beside}",
        graded(spread <= STATIC, spread <= NEARLY_STATIC, unsure=labels < ENOUGH_LABELS),
    )


def _ratios(rows: Rows, network: str) -> Iterator[Verdict]:
    """Whether the share falls from client to client in the settings' reading, and how much the reading matters."""
    used = where(rows, network=network, kind="attack")[0]["reading"]
    shares, lowest = _shares(rows, network, used), LOWEST[network]
    budget = _shares(rows, network, used, "budget")[-1]
    falls = all(later < (1 - LEVEL) * earlier for earlier, later in pairwise(shares))
    rises = any(later > (1 + LEVEL) * earlier for earlier, later in pairwise(shares))
    beyond = f"; a budget of 1/{round(1 / budget)} allows no {lowest:.1%}" if lowest > budget * 1.01 else ""
    yield Verdict(
        f"{network}: the HE ratio falls with the CPUs among clients 1-8, down to {lowest:.1%}",
        f"{_percents(shares)} (objectives normalised over {_READS[used]}); {_infeasible(rows, network, used)}{beyond}. "
        f"Reproduced: falls at every step by more than {LEVEL:.0%} of itself and ends within {NEAR:.0%} of "
        f"{lowest:.1%}; in shape: never rises by more than {LEVEL:.0%} of itself and ends below half of its start",
        graded(falls and abs(shares[-1] - lowest) <= NEAR * lowest, not rises and shares[-1] < shares[0] / 2),
    )
    found = {reading: _shares(rows, network, reading) for reading in READINGS}
    apart = [max(values) - min(values) for values in zip(*found.values(), strict=True)]
    furthest = _devices(rows, network)[int(np.argmax(apart))]
    yield Verdict(
        f"(ours) {network}: does it matter over which masks the objectives are normalised?",
        "; ".join(f"{_READS[reading]}: {_percents(values)}" for reading, values in found.items())
        + f"; at most {max(apart):.1%} of the model apart, with {furthest:g} CPUs",
        "beyond",
    )


def _stronger(rows: Rows, network: str, plain: float, guess: float) -> Verdict:
    own = where(rows, kind="attack", network=network, preset="paper")
    names = distinct([row for row in own if row["cpus"]], "adversary")
    found = {name: _course(rows, network, name, "lnacc") for name in names if name not in ("prior", PAPERS)}
    words = "; ".join(f"{name} {of_each(values)}" for name, values in found.items())
    return Verdict(
        f"(ours) {network}: does the same hold against stronger attackers?",
        f"LnAcc from the fastest to the slowest client: {words}; guessing {guess:.2f}",
        answer(max(max(values) for values in found.values()) <= plain - LOWER),
    )


def _default(rows: Rows) -> Iterator[Verdict]:
    own = [row for row in where(rows, kind="attack", preset="default") if row["cpus"] and row["adversary"] != "prior"]
    for who, inside in (("the aggregator alone", False), ("the aggregator with a member of the cluster", True)):
        seen = [row for row in own if (row["adversary"] == "collusion") == inside]
        if not seen:
            continue
        guess = _pair(rows, SMALL, "default", "prior")[1]
        devices = sorted(distinct(seen, "cpus"), reverse=True)
        found = [max(where(seen, cpus=cpus), key=lambda row: float(row["lnacc"])) for cpus in devices]
        words = ", ".join(f"{row['lnacc']:.2f} at {row['share']:.1%} ({row['adversary']})" for row in found)
        yield Verdict(
            f"(ours) preset default, with a secret order: can {who} only guess, however low the ratio?",
            f"LnAcc of the best attacker {words}; guessing {guess:.2f}",
            answer(max(row["lnacc"] for row in found) <= guess + 0.05),
        )


def _course(rows: Rows, network: str, adversary: str, key: str) -> list[float]:
    """A figure under preset paper, from the fastest to the slowest client."""
    own = where(rows, kind="attack", network=network, preset="paper", adversary=adversary)
    return [mean(where(own, cpus=cpus), key, "seeds") for cpus in _devices(rows, network)]


def _devices(rows: Rows, network: str) -> list[float]:
    """CPUs of clients 1 to 8, in descending order."""
    own = where(rows, kind="attack", network=network, preset="paper")
    return sorted({row["cpus"] for row in own if row["cpus"]}, reverse=True)


def _shares(rows: Rows, network: str, reading: str, key: str = "share") -> list[float]:
    """The mean over runs for each client."""
    own = where(rows, kind="share", network=network, reading=reading)
    return [mean(where(own, cpus=cpus), key) for cpus in _devices(rows, network)]


def _infeasible(rows: Rows, network: str, reading: str) -> str:
    every = where(rows, kind="share", network=network, reading=reading)
    without = where(every, feasible=False)
    if not without:
        return f"some mask meets all constraints for each of {len(every)} clients"
    which = ", ".join(f"{cpus:g}" for cpus in sorted(distinct(without, "cpus"), reverse=True))
    clients = f"{len(without)} of {len(every)} clients (with {which} CPUs)"
    return f"no mask meets all constraints for {clients}, which then encrypt their whole budget"


def _pair(rows: Rows, network: str, preset: str, adversary: str) -> tuple[float, float]:
    """LeAcc and LnAcc at the client that encrypts nothing."""
    own = where(rows, kind="attack", network=network, preset=preset, adversary=adversary, cpus=0.0)
    return mean(own, "leacc", "seeds"), mean(own, "lnacc", "seeds")


def _called(rows: Rows, cpus: float) -> str:
    share = 100 * mean(where(rows, cpus=cpus), "share")
    return f"{cpus:g} CPU{'s' * (cpus > 1)}\n{share:.3g} %" if cpus else "no\nHE"


def _percents(values: Sequence[float]) -> str:
    return " ".join(f"{100 * value:.1f}" for value in values) + " %"


ITEM = Item(
    "extreme-devices",
    "Attack results under extreme system heterogeneity",
    "Figure 6",
    cells,
    draw,
    judge,
    datasets=lambda spec: ["mnist", "cifar-100"] if spec["large_runs"] else ["mnist"],
)
