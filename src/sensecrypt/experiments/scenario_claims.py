"""What the paper says about its three scenarios, beside what the rows of the main evaluation say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sensecrypt.drawing import number
from sensecrypt.experiments.item import Outcome, Rows, Verdict
from sensecrypt.experiments.scenario_rows import (
    AHEAD,
    BOTH,
    LEARNT,
    METHODS,
    NORMAL,
    OURS,
    PAPERS,
    STATISTICAL,
    SYSTEM,
    WAYS,
    Found,
    Place,
    chance,
)
from sensecrypt.profiles import get_profile


def judge(rows: Rows) -> list[Verdict]:
    """The paper's statements one by one, then what the default preset does."""
    found = Found(rows)
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


def _saving(found: Found, places: Sequence[Place], other: str, claim: str, least: float) -> Verdict:
    cuts = [1 - found.total(place, "SenseCrypt") / found.total(place, other) for place in places]
    return Verdict(
        f"with uneven devices SenseCrypt takes {claim} less time than {other}",
        _list(places, [f"{abs(cut):.1%} {'less' if cut >= 0 else 'more'}" for cut in cuts]),
        _graded(min(cuts) >= least, min(cuts) > 0),
    )


def _shorter(found: Found, places: Sequence[Place]) -> Verdict:
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


def _multiples(found: Found, places: Sequence[Place]) -> list[Verdict]:
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


def _smaller_unions(found: Found) -> list[Verdict]:
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


def _accuracies(found: Found) -> list[Verdict]:
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


def _convergence(found: Found, places: Sequence[Place]) -> Verdict:
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


def _communication(found: Found) -> list[Verdict]:
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


def _ours(found: Found) -> Verdict:
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
