"""Assigns samples to clients, from identically distributed to one class per client, and measures the difference.

Every split returns, for each client, the ascending indices of its samples. Clients never share a sample.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.checks import FloatVector, IntVector
from sensecrypt.errors import InvalidInput

Parts = list[IntVector]

_MEANING = {"categories": "the number of categories", "k": "the number of classes", "alpha": "the concentration"}
_WHOLE = re.compile(r"\d{1,9}")
_DECIMAL = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def iid(labels: npt.ArrayLike, clients: int, *, rng: np.random.Generator) -> Parts:
    """Distribute all samples evenly at random."""
    known = _check(labels, clients)
    return _deal(np.arange(known.size), clients, rng)


def by_categories(labels: npt.ArrayLike, clients: int, categories: int, *, rng: np.random.Generator) -> Parts:
    """Split classes and clients, in order, into `categories` even groups; distribute evenly within each group."""
    known = _check(labels, clients)
    present = np.unique(known)
    checks.whole("categories", categories, low=1)
    for what, count in (("classes", present.size), ("clients", clients)):
        if categories > count:
            raise InvalidInput("categories", f"is {categories}, but there are {count} {what}", f"pass at most {count}")
    parts: Parts = []
    groups = np.array_split(present, categories), np.array_split(np.arange(clients), categories)
    for classes, members in zip(*groups, strict=True):
        samples = np.flatnonzero(np.isin(known, classes))
        _require(samples.size, members.size, f"classes {classes[0]} … {classes[-1]}")
        parts += _deal(samples, members.size, rng)
    return parts


def classes_per_client(
    labels: npt.ArrayLike, clients: int, k: int, *, rng: np.random.Generator, stray: int = 0
) -> Parts:
    """Give client i the k classes from number i·k on, cyclically; clients share the samples of a class evenly.

    Args:
        labels: the class of each sample.
        clients: number of clients.
        k: classes per client.
        rng: distributes the samples of a class.
        stray: additional samples of each other class per client.

    If clients · k is below the number of classes, no client has the remaining classes, and their samples are left out.
    """
    known = _check(labels, clients)
    present = np.unique(known)
    checks.whole("k", k, low=1, high=present.size)
    checks.whole("stray", stray, low=0)
    first = np.arange(clients) * k
    shares: list[Parts] = [[] for _ in range(clients)]
    for position, label in enumerate(present):
        holds = (position - first) % present.size < k
        holders, others = np.flatnonzero(holds), np.flatnonzero(~holds)
        samples = rng.permutation(np.flatnonzero(known == label))
        strays = stray * others.size
        _require(samples.size, strays + holders.size, f"class {label}")
        for client, part in zip(others, samples[:strays].reshape(others.size, stray), strict=True):
            shares[client].append(part)
        if holders.size:
            for client, part in zip(holders, np.array_split(samples[strays:], holders.size), strict=True):
                shares[client].append(part)
    return [np.sort(np.concatenate(parts)) for parts in shares]


def dirichlet(
    labels: npt.ArrayLike, clients: int, alpha: float, *, rng: np.random.Generator, min_samples: int = 2
) -> Parts:
    """Distribute each class over the clients by shares from a symmetric Dirichlet distribution.

    Args:
        labels: the class of each sample.
        clients: number of clients.
        alpha: concentration; large: near IID, near 0: each class at one client.
        rng: draws the shares and distributes the samples.
        min_samples: clients with fewer get samples from the currently largest client, so that any alpha gives a valid
            split.
    """
    known = _check(labels, clients)
    checks.number("alpha", alpha, low=0.0, open_low=True)
    checks.whole("min_samples", min_samples, low=0)
    _require(known.size, clients * min_samples, "all classes", f" of at least {min_samples} samples")
    owner = np.empty(known.size, dtype=np.int64)
    for label in np.unique(known):
        samples = rng.permutation(np.flatnonzero(known == label))
        cuts = np.cumsum(rng.dirichlet(np.full(clients, float(alpha))))[:-1] * samples.size
        owner[samples] = np.searchsorted(cuts, np.arange(samples.size), side="right")
    sizes = np.bincount(owner, minlength=clients)
    while sizes.min() < min_samples:
        poor, rich = int(sizes.argmin()), int(sizes.argmax())
        owner[rng.choice(np.flatnonzero(owner == rich))] = poor
        sizes[poor] += 1
        sizes[rich] -= 1
    return [np.flatnonzero(owner == client) for client in range(clients)]


def make_partition(partition: str, labels: npt.ArrayLike, clients: int, *, rng: np.random.Generator) -> Parts:
    """Split by the value of the setting `partition`: `iid`, `categories:4`, `classes:2` or `dirichlet:0.5`."""
    try:
        return _split(partition, labels, clients, rng)
    except InvalidInput as error:
        if error.argument not in _MEANING:
            raise
        problem = f"is {partition!r}: {_MEANING[error.argument]} {error.problem}"
        raise InvalidInput("partition", problem, error.fix) from None


def _split(partition: str, labels: npt.ArrayLike, clients: int, rng: np.random.Generator) -> Parts:
    kind, _, value = str(partition).partition(":")
    if partition == "iid":
        return iid(labels, clients, rng=rng)
    if kind == "categories" and _WHOLE.fullmatch(value):
        return by_categories(labels, clients, int(value), rng=rng)
    if kind == "classes" and _WHOLE.fullmatch(value):
        return classes_per_client(labels, clients, int(value), rng=rng)
    if kind == "dirichlet" and _DECIMAL.fullmatch(value):
        return dirichlet(labels, clients, float(value), rng=rng)
    fix = "pass for example 'iid', 'categories:4', 'classes:2' or 'dirichlet:0.5'"
    raise InvalidInput("partition", f"is {partition!r}", fix)


def class_histogram(labels: npt.ArrayLike, indices: npt.ArrayLike, classes: int) -> IntVector:
    """Return how many samples of each of `classes` classes a client has."""
    known = _check(labels, 1)
    checks.whole("classes", classes, low=int(known.max()) + 1)
    chosen = np.asarray(indices, dtype=np.int64)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= known.size):
        problem = f"are not all below {known.size:,}, the number of labels"
        raise InvalidInput("indices", problem, "pass indices of the same data set")
    return np.bincount(known[chosen], minlength=classes)


def earth_movers_distance(p: npt.ArrayLike, q: npt.ArrayLike) -> float:
    """Return Σ |cumsum(p − q)| of two normalised histograms; classes i and j have distance |i − j|."""
    left, right = _cumulative("p", p), _cumulative("q", q)
    _require_same_classes("q", right, left)
    return float(np.abs(left - right).sum())


def mean_emd(histograms: Sequence[npt.ArrayLike]) -> float:
    """Return the mean earth mover's distance over all pairs of clients."""
    if len(histograms) < 2:
        raise InvalidInput("histograms", f"has {len(histograms)} client(s)", "pass at least two")
    rows = [_cumulative("histograms", histogram) for histogram in histograms]
    for row in rows:
        _require_same_classes("histograms", row, rows[0])
    table = np.stack(rows)
    total = sum(float(np.abs(table[i + 1 :] - table[i]).sum()) for i in range(len(table)))
    return total / (len(table) * (len(table) - 1) / 2)


def _check(labels: npt.ArrayLike, clients: int) -> IntVector:
    """Return the labels as int64; raise if there are fewer samples than clients."""
    known = np.asarray(labels)
    if known.ndim != 1 or not np.issubdtype(known.dtype, np.integer) or not known.size or known.min() < 0:
        raise InvalidInput("labels", "is not a vector of class numbers", "pass one non-negative integer per sample")
    checks.whole("clients", clients, low=1)
    _require(known.size, clients, "all classes")
    return known.astype(np.int64, copy=False)


def _require(samples: int, needed: int, of: str, each: str = "") -> None:
    if samples < needed:
        problem = f"{samples:,} samples of {of} are too few: this many clients{each} need {needed:,}"
        raise InvalidInput("clients", problem, "pass fewer clients or more samples")


def _deal(samples: IntVector, clients: int, rng: np.random.Generator) -> Parts:
    return [np.sort(part) for part in np.array_split(rng.permutation(samples), clients)]


def _require_same_classes(argument: str, histogram: FloatVector, other: FloatVector) -> None:
    if histogram.size != other.size:
        problem = f"has {histogram.size} classes, another histogram has {other.size}"
        raise InvalidInput(argument, problem, "count the same classes for all clients")


def _cumulative(argument: str, histogram: npt.ArrayLike) -> FloatVector:
    counts = checks.finite_vector(argument, histogram)
    if counts.min() < 0 or counts.sum() == 0:
        raise InvalidInput(argument, "is not a histogram", "pass non-negative counts, at least one of them positive")
    return np.cumsum(counts / counts.sum())
