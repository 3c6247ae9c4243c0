"""Appendix H: which parameters to encrypt first, by mutual information and by the labels that iLRG finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import nn

from sensecrypt.algo.leakage import mutual_information_curve
from sensecrypt.algo.ordering import descending_order
from sensecrypt.data import load_dataset
from sensecrypt.lab.attacks.ladder import attack_labels
from sensecrypt.lab.attacks.synthetic import Images, synthetic_client
from sensecrypt.lab.drawing import Figure, colour_of, number, sheet
from sensecrypt.lab.experiments.charts import lines
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import distinct, mean, where
from sensecrypt.models import build_model
from sensecrypt.rng import derive_rng

CLASSES = 10
FIRST = ("high", "low", "random")
PAPERS, ALL_LAYERS = "zero-fill", "prototype"
LARGE = "resnet50"  # the paper's network
NAMES = {LARGE: "ResNet-50", "lenet5": "LeNet-5"}
SHARP = 0.1  # above this share the paper's curves have dropped
LINEAR, UNCHANGED, ALMOST_NOTHING = 0.97, 0.8, 0.1  # R²; parts of the initial MI
ENOUGH = 3  # clients per point, for values that hardly differ between clients
ENOUGH_LABELS = 100  # for others: with fewer, a miss counts only if chance does not explain it


def cells(spec: Spec) -> list[Cell]:
    """One cell per client of the paper's network; for the small one, one per attacker."""
    first, small = spec["first_seed"], spec["small_model"]
    found = [
        Cell(f"{spec['model']}-{seed}", 90.0, partial(_measure, spec, spec["model"], [first + seed], "shares", PAPERS))
        for seed in range(spec["seeds"])
    ]
    few, strong = (range(first, first + spec[f"{kind}_seeds"]) for kind in ("small", "strong"))
    if few:
        found.append(Cell(small, 1.2 * len(few), partial(_measure, spec, small, few, "shares", PAPERS)))
    if strong:
        seconds = 0.6 * len(strong) * (1 + 3 * len(spec["strong_shares"]))
        measure = partial(_measure, spec, small, strong, "strong_shares", ALL_LAYERS)
        found.append(Cell(f"{small}-{ALL_LAYERS}", seconds, measure))
    return found


def _measure(spec: Spec, model: str, seeds: Sequence[int], which: str, adversary: str, _folder: Path) -> list[Row]:
    """Means over clients: one row per strategy, share and adversary; `mi` is that of the first number of bins."""
    torch.set_num_threads(1)
    shares: Sequence[float] = spec[which]
    data = load_dataset(spec["dataset"])
    images, build = _fitted(model, data.train_images, data.classes)
    public = spec["public_per_class"] if adversary == ALL_LAYERS else 1
    attacked = partial(synthetic_client, samples=spec["samples"], public_per_class=public)
    found: dict[tuple[str, float, str], list[dict[str, float]]] = {}
    for seed in seeds:
        client = attacked(build, images, data.train_labels, classes=data.classes, seed=seed)
        order, _ = descending_order(client.sensitivity)
        orders = {"high": order, "low": order[::-1], "random": derive_rng(seed, "first").permutation(order.size)}
        for place, (first, chosen) in enumerate(orders.items()):
            ends = [0, *(round(share * order.size) for share in shares)]
            curve_of = partial(mutual_information_curve, client.observation.before, chosen)
            curves = {bins: curve_of(bins=bins)[ends] for bins in spec["bins"]}
            for end in range(1 if place else 0, len(ends)):  # nothing encrypted is the same for all
                hidden = np.zeros(order.size, dtype=bool)
                hidden[chosen[: ends[end]]] = True
                seen = client.observe(hidden)
                bits = {_mi(spec, bins): float(curve[end]) for bins, curve in curves.items()}
                names = (adversary,) if end else ("prior", adversary)
                for name, scores in attack_labels(seen, client.counts, names):
                    key = (first if end else "nothing", float(hidden.mean()), name)
                    found.setdefault(key, []).append({**bits, "leacc": scores.leacc, "lnacc": scores.lnacc})
    rows: list[Row] = []
    for (first, share, name), each in found.items():
        means: Row = {key: float(np.mean([one[key] for one in each])) for key in each[0]}
        rows.append({"model": model, "first": first, "adversary": name, "share": share, "seeds": len(each), **means})
    return rows


def _mi(spec: Spec, bins: int) -> str:
    return "mi" if bins == spec["bins"][0] else f"mi_{bins}"


def _fitted(model: str, images: Images, classes: int) -> tuple[Images, str | Callable[[int], nn.Module]]:
    """Images and network that fit: for ResNet-50, small grey images get a margin and three equal channels."""
    if model != LARGE or images.shape[1:] == (3, 32, 32):
        return images, model
    margins = [(0, 0), (0, 0), *((((32 - side) // 2, (33 - side) // 2)) for side in images.shape[2:])]
    framed = np.pad(images, margins)
    return np.broadcast_to(framed, (len(framed), 3, 32, 32)), partial(_resnet50, classes)


def _resnet50(classes: int, seed: int) -> nn.Module:
    *layers, head = build_model(LARGE, seed=seed).children()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(*layers, nn.Linear(next(head.parameters()).shape[1], classes))


def draw(rows: Rows) -> Figure:
    """MI, LeAcc and LnAcc against the encrypted share, one line of panels per network."""
    models = distinct(rows, "model")
    title = "Encrypting high, low or random sensitivity first"
    figure, panels = sheet(title, panels=3 * len(models), columns=3, size=(13, 4.2 * len(models)))
    for line, model in enumerate(models):
        own = _of_model(rows, model)
        shown = {"mi": "MI in bits", "leacc": "LeAcc", "lnacc": "LnAcc"}
        for axes, (key, label) in zip(panels[3 * line : 3 * line + 3], shown.items(), strict=True):
            series = {f"{first} first": _curve(own, first, PAPERS, key) for first in FIRST}
            lines(axes, series, xlabel="encrypted share", ylabel=label)
            axes.set_title(NAMES.get(model, model), fontsize=9)
            if key == "mi":
                axes.set_ylim(bottom=0)
                continue
            if _of(own, "high", ALL_LAYERS):
                for place, first in enumerate(FIRST):
                    x, y = _curve(own, first, ALL_LAYERS, key)
                    axes.plot(x, y, "x", color=colour_of(place), ms=7)
                axes.plot([], [], "kx", ms=7, label="the same, attacker\nthat reads all layers")
            prior = _of(own, "nothing", "prior")[0][key]
            axes.axhline(prior, color="grey", linestyle="--", linewidth=1, label="guessing")
            axes.set_ylim(0, 1.05)
            axes.legend(fontsize=8)
    return figure


def judge(rows: Rows) -> list[Verdict]:
    """Each curve against its description, network by network."""
    verdicts = []
    for model in distinct(rows, "model"):
        own = _of_model(rows, model)
        judged = _judged(own, f"{NAMES.get(model, model)}: ")
        if min(row["seeds"] for row in _of(own, "high", PAPERS)) < ENOUGH:
            judged = [replace(each, outcome="too little to tell") for each in judged]
        verdicts += judged
        if _of(own, "high", ALL_LAYERS):
            verdicts.append(_withstood(own, NAMES.get(model, model)))
    return verdicts


def _judged(rows: Rows, name: str) -> list[Verdict]:
    mi, lnacc, leacc = (
        {first: _curve(rows, first, PAPERS, key) for first in FIRST} for key in ("mi", "lnacc", "leacc")
    )
    prior = _of(rows, "nothing", "prior")[0]
    x, y = (np.array(each) for each in mi["random"])
    straight = float(np.corrcoef(x, y)[0, 1] ** 2)
    kept = mi["low"][1][-1] / mi["low"][1][0]
    beyond = [value / mi["high"][1][0] for share, value in zip(*mi["high"], strict=True) if share > SHARP + 1e-3]
    late = {first: _late(lnacc[first]) for first in FIRST}
    later = {first: _late(leacc[first]) for first in FIRST}
    follows = max(late["high"]) < 0.3 and min(late["low"]) > 0.9 and late["random"][-1] < late["random"][0] - 0.2
    exists = min(later["low"]) > 0.9 and max(later["high"]) < 0.7
    gap = min(low - high for low, high in zip(late["low"], late["high"], strict=True))
    stops = {first: _stopped(lnacc[first], prior["lnacc"] + 0.05) for first in FIRST}
    words = {first: "nowhere" if share is None else f"{share:.0%}" for first, share in stops.items()}
    everything = where(rows, adversary=PAPERS)
    rank = float(spearmanr([row["mi"] for row in everything], [row["lnacc"] for row in everything]).statistic)
    labels = CLASSES * min(row["seeds"] for row in everything)
    few, noise = labels < ENOUGH_LABELS, 1 / np.sqrt(labels)  # two standard errors at most
    missed = max(max(late["high"]) - 0.3, 0.9 - min(late["low"]), late["random"][-1] - late["random"][0] + 0.2)
    note = f"; {labels} labels per point, fewer than {ENOUGH_LABELS}" if few else ""
    plain = _of(rows, "nothing", PAPERS)[0]
    guess = f"guessing {prior['leacc']:.2f}/{prior['lnacc']:.2f}, plaintext {plain['leacc']:.2f}/{plain['lnacc']:.2f}"
    return [
        Verdict(
            f"{name}MI of random falls almost linearly",
            f"from {y[0]:.2f} to {y[-1]:.2f} bits at {x[-1]:.0%}; R² of a straight line {straight:.3f} (linear: above "
            f"{LINEAR}, and less than half left){_otherwise(rows, 'random')}",
            graded(straight > LINEAR and y[-1] < y[0] / 2),
        ),
        Verdict(
            f"{name}MI of low first remains almost unchanged",
            f"{mi['low'][1][0]:.2f} bits at 0, {mi['low'][1][-1]:.2f} at {mi['low'][0][-1]:.0%}, where high has "
            f"{mi['high'][1][-1]:.2f} and random {mi['random'][1][-1]:.2f} (unchanged: more than {UNCHANGED:.0%} left)"
            f"{_otherwise(rows, 'low')}",
            graded(kept > UNCHANGED),
        ),
        Verdict(
            f"{name}MI of high first drops sharply to almost 0 above a share of 0.1",
            f"{beyond[0]:.0%} of its start is left at the first share above 0.1, {beyond[-1]:.0%} at the last (almost "
            f"0: less than {ALMOST_NOTHING:.0%} left){_otherwise(rows, 'high')}",
            graded(beyond[0] < ALMOST_NOTHING),
        ),
        Verdict(
            f"{name}LeAcc and LnAcc follow: high drops at 0.1, low stays, random falls slowly",
            f"LnAcc from 10 % on: high at most {max(late['high']):.2f} (bound 0.30), low at least "
            f"{min(late['low']):.2f} (bound 0.90), random {late['random'][0]:.2f} to {late['random'][-1]:.2f} (bound: "
            f"a fall by 0.20); LeAcc: high {min(later['high']):.2f} to {max(later['high']):.2f} (bound 0.70), low at "
            f"least {min(later['low']):.2f} (bound 0.90); in shape: LnAcc only; {guess}{note}",
            graded(follows and exists, follows, unsure=few and bool(missed <= noise)),
        ),
        Verdict(
            f"{name}high and low first are in stark contrast",
            f"LnAcc of low is at least {gap:.2f} above that of high at every share from 10 % on (stark: above 0.50)"
            f"{note}",
            graded(gap > 0.5, unsure=few and bool(abs(gap - 0.5) <= np.sqrt(2) * noise)),
        ),
        Verdict(
            f"{name}random reaches the same protection, at significantly more encryption than high",
            f"LnAcc is down to guessing, within 0.05, from {words['high']} (high), {words['random']} (random), "
            f"{words['low']} (low) on (significantly: at least twice as much){note}",
            graded(_reached_later(stops["random"], stops["high"]), unsure=few),
        ),
        Verdict(
            f"{name}so MI is a reliable measure of leakage",
            f"rank correlation of MI and LnAcc over all points {rank:.2f} (reliable: above 0.80); at {_middle(rows)}"
            f"{note}",
            graded(rank > 0.8, unsure=few),
        ),
    ]


def _withstood(rows: Rows, name: str) -> Verdict:
    prior = _of(rows, "nothing", "prior")[0]
    own = _of(rows, "high", ALL_LAYERS)
    words = ", ".join(f"{row['lnacc']:.2f} at {row['share']:.0%}" for row in own)
    return Verdict(
        f"(ours) {name}: does high first stop an attacker that reads all layers and has labelled data?",
        f"LnAcc of high first {words}; guessing {prior['lnacc']:.2f} (stopped: within 0.30 of it at the first share)",
        answer(own[0]["lnacc"] <= prior["lnacc"] + 0.3),
    )


def _otherwise(rows: Rows, first: str) -> str:
    """MI with other numbers of bins: at the start, just above 0.1, and at the end."""
    parts = []
    for key in [key for key in rows[0] if key.startswith("mi_")]:
        shares, bits = _curve(rows, first, PAPERS, key)
        above = next(place for place, share in enumerate(shares) if share > SHARP + 1e-3)
        parts.append(f"{bits[0]:.2f}, {bits[above]:.2f}, {bits[-1]:.2f} with {key[3:]} bins")
    return f"; at 0, {shares[above]:.0%} and {shares[-1]:.0%}: " + ", ".join(parts) if parts else ""


def _late(curve: tuple[list[float], list[float]]) -> list[float]:
    return [value for share, value in zip(*curve, strict=True) if share >= SHARP - 1e-3]


def _of_model(rows: Rows, model: str) -> Rows:
    """The rows of one network with cells merged: means weighted by the number of clients."""
    found: dict[tuple[str, str, float], list[Mapping[str, Any]]] = {}
    for row in where(rows, model=model):
        found.setdefault((row["first"], row["adversary"], row["share"]), []).append(row)
    keys = [key for key in rows[0] if key in ("leacc", "lnacc") or key.startswith("mi")]
    return [
        {**own[0], "seeds": sum(row["seeds"] for row in own), **{key: mean(own, key, "seeds") for key in keys}}
        for own in found.values()
    ]


def _of(rows: Rows, first: str, adversary: str) -> list[Any]:
    return sorted(where(rows, first=first, adversary=adversary), key=lambda row: float(row["share"]))


def _curve(rows: Rows, first: str, adversary: str, key: str) -> tuple[list[float], list[float]]:
    """A figure against the share, from nothing encrypted on."""
    own = [*_of(rows, "nothing", adversary)[:1], *_of(rows, first, adversary)]
    return [float(row["share"]) for row in own], [float(row[key]) for row in own]


def _stopped(curve: tuple[list[float], list[float]], bound: float) -> float | None:
    """The least share from which on the figure stays below the bound; None if there is none."""
    return next((share for place, share in enumerate(curve[0]) if max(curve[1][place:]) <= bound), None)


def _reached_later(share: float | None, than: float | None) -> bool:
    """Whether protection needs at least twice the share; False if a curve never reaches it."""
    return share is not None and than is not None and share >= 2 * than - 1e-3  # shares are whole numbers of parameters


def _middle(rows: Rows) -> str:
    """The three strategies at 40 %, where protection differs most and MI least."""
    shares = [share for share in _curve(rows, "low", PAPERS, "mi")[0] if share > 0]
    place = min(range(len(shares)), key=lambda at: abs(shares[at] - 0.4)) + 1
    parts = []
    for first in FIRST:
        bits, found = (_curve(rows, first, PAPERS, key)[1][place] for key in ("mi", "lnacc"))
        parts.append(f"{first} {number(bits)} bits, LnAcc {found:.2f}")
    return f"{shares[place - 1]:.0%}: " + "; ".join(parts)


ITEM = Item("strategies", "Mutual information and attacks by what is encrypted first", "Appendix H", cells, draw, judge)
