"""Appendix J, Theorem 1: what the aggregator and c members recover of an honest member, from a run's kept messages.

Colluders know their own weights and the decrypted sum; the aggregator has the plain values of all clients. If they
subtract these from the sum, a value of one honest client remains wherever no other honest client encrypted, unless
plain values are blinded. The difference is compared with the truth in both cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sensecrypt.algo.clipping import clip_bound
from sensecrypt.checks import FloatVector
from sensecrypt.client.problem import configured_problem
from sensecrypt.config import make_config
from sensecrypt.lab.drawing import Figure, sheet
from sensecrypt.lab.experiments.charts import lines
from sensecrypt.lab.experiments.item import Cell, Item, Row, Rows, Spec, Verdict, answer, graded
from sensecrypt.lab.experiments.picking import distinct, mean, where
from sensecrypt.models import get_vector
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.envelope import parse_any
from sensecrypt.protocol.messages import Aggregate, Upload
from sensecrypt.protocol.protection import model_format
from sensecrypt.protocol.round import Round
from sensecrypt.runs.folder import RunFolder
from sensecrypt.transports.local.keys import release_rules
from sensecrypt.transports.local.run import run_local
from sensecrypt.types import BoolVector

PAPER, DEFAULT = "preset paper", "preset default"
PART, COVERED = "default, budgets by CPUs, rest plain", "default, budgets by CPUs, rest plain, all encrypt every block"
BLINDED, PAPER_BLINDED = "default, budgets by CPUs", "preset paper, rest blinded"
PROTOCOLS: dict[str, dict[str, Any]] = {
    PAPER: {"preset": "paper"},
    PAPER_BLINDED: {"preset": "paper", "rest": "blinded", "key_mode": "dkms"},
    DEFAULT: {"preset": "default"},
    BLINDED: {"preset": "default", "budget": "paper"},
    PART: {"preset": "default", "budget": "paper", "rest": "plain"},
    COVERED: {"preset": "default", "budget": "paper", "rest": "plain", "min_contributors": 5},  # all of a cluster
}
EXACT = 1e-3  # smaller errors of a weight count as recovered; rounding gives 1e-6


def cells(spec: Spec) -> list[Cell]:
    """One run per protocol."""
    seconds = {name: float(spec["paper_seconds" if name == PAPER else "default_seconds"]) for name in PROTOCOLS}
    return [
        Cell(f"run-{place}", seconds[name], partial(_measure, name, settings, spec))
        for place, (name, settings) in enumerate(PROTOCOLS.items())
    ]


def _measure(protocol: str, settings: Mapping[str, Any], spec: Spec, folder: Path) -> list[Row]:
    run = RunFolder(folder / "run")
    shared = {key: spec[key] for key in ("dataset", "clients", "partition", "clustering", "crypto", "seed")}
    run_local(make_config({**shared, **settings, "rounds": 1, "messages": "keep"}), run, resume=run.exists())
    rows: list[Row] = []
    for number, members in enumerate(_clusters(run)):
        for member in members:
            who: Row = {"protocol": protocol, "cluster": number, "members": len(members), "client": member.client}
            who["encrypted"] = float(member.encrypted.mean())
            for colluders, shares, error in _coalitions(member, [each for each in members if each is not member]):
                found = {"colluders": colluders, "recovered": float(np.mean(shares)), "most": float(np.max(shares))}
                rows.append({**who, **found, "error": error})
    return rows


@dataclass(frozen=True, eq=False)
class Member:
    """A client of a cluster in the recorded round, in the natural order of the parameters."""

    client: int  # its number
    scale: float  # fixed-point steps per unit of its weights
    encrypted: BoolVector  # which values it encrypted
    own: FloatVector  # its weights, known to itself
    plain: FloatVector  # the fixed-point values that it did not encrypt, blinded or not, as in the sum; 0 elsewhere
    encoded: FloatVector  # all its fixed-point values, as in the sum
    total: FloatVector  # the cluster's decrypted sum in fixed point


def _coalitions(target: Member, others: Sequence[Member]) -> Iterator[tuple[int, list[float], float]]:
    """For every number of colluders, the recovered shares of the target's encrypted values, and the largest error.

    The aggregator alone does not receive the decrypted sum: the key server sends it to members only.
    """
    hidden = int(target.encrypted.sum())
    yield 0, [0.0], 0.0
    for many in range(1, len(others) + 1):
        shares, worst = [], 0.0
        for coalition in combinations(others, many):
            honest = [each for each in others if each not in coalition]
            alone = target.encrypted.copy()
            rest = target.total.copy()
            for each in coalition:
                rest -= each.encoded
            for each in honest:
                alone &= ~each.encrypted
                rest -= each.plain
            errors = np.abs(rest[alone] / target.scale - target.own[alone])
            worst = max(worst, float(errors.max(initial=0.0)))
            shares.append(int(np.count_nonzero(errors < EXACT)) / hidden if hidden else 0.0)
        yield many, shares, worst


def _clusters(run: RunFolder) -> Iterator[list[Member]]:
    """The members of each cluster, from the kept messages of the first round."""
    config, checkpoint = run.read_config(), run.load_checkpoint()
    labels = np.zeros(config.problem.clients, dtype=np.int64) if checkpoint is None else checkpoint[1]["labels"]
    problem = configured_problem(config)
    samples = np.array([len(each) for _, each in problem.clients])
    initial = get_vector(problem.build())
    size = initial.size
    clip = clip_bound(config.training.clip, initial) if config.training.uploads == "updates" else None
    for cluster in np.unique(labels):
        places = [int(place) for place in np.flatnonzero(labels == cluster)]
        members = {place: int(samples[place]) for place in places}
        weights, factors = release_rules(config).shares(members, whole=config.encryption.weighting == "server")
        header, _ = parse_any(run.message(0, f"upload-{places[0]}"), "upload")
        profile, attempt = get_profile(config.encryption.profile), int(header["attempt"])
        round_ = Round(header["run"], 0, int(cluster), "model", size, profile, weights, attempt, factors, clip)
        order = parse_any(run.message(0, f"members-{cluster}"), "members")[1].get("order", np.arange(size))
        aggregate = Aggregate.from_bytes(run.message(0, f"aggregate-{cluster}"), round_)
        mean = parse_any(run.message(0, f"released-{cluster}"), "released")[1]["moved"].astype(np.float64)
        step = 2.0 ** model_format(round_).frac_bits
        total = np.rint(mean * round_.divisor(aggregate.contributors) * step)
        yield [_member(run, round_, place, order, total, step) for place in aggregate.contributors]


def _member(
    run: RunFolder, round_: Round, client: int, order: np.ndarray[Any, Any], total: FloatVector, step: float
) -> Member:
    upload = Upload.from_bytes(run.message(0, f"upload-{client}"), round_)
    own = parse_any(run.message(0, f"own-{client}"), "own")[1]["sent"].astype(np.float64)
    slots = upload.mask.to_array()
    encrypted, plain = np.zeros(round_.size, dtype=bool), np.zeros(round_.size)
    encrypted[order] = slots
    share, factor = round_.share(client), round_.factor(client)
    plain[order[~slots]] = factor * upload.plain
    encoded = factor * model_format(round_).encode(own, share).astype(np.float64)
    return Member(client, share * factor * step, encrypted, own, plain, encoded, total)


def draw(rows: Rows) -> Figure:
    """The recovered share against the number of colluders: mean and range over clients and coalitions."""
    figure, [axes] = sheet("What a coalition recovers of an honest client's encrypted values", panels=1, size=(9, 4.4))
    series, bands = {}, {}
    for protocol in distinct(rows, "protocol"):
        own = where(rows, protocol=protocol)
        counts = sorted(distinct(own, "colluders"))
        average, most = ([end(own, count) for count in counts] for end in (_mean, _most))
        least, high = (end(row["encrypted"] for row in own) for end in (min, max))
        part = f"{least:.0%}" if least == high else f"{least:.0%} to {high:.0%}"
        name = f"{protocol} ({part} encrypted)"
        series[name], bands[name] = ([float(count) for count in counts], average), (average, most)
    lines(axes, series, xlabel="members that collude with the aggregator", ylabel="% recovered exactly", bands=bands)
    size = max(row["members"] for row in rows)
    axes.axvline(size - 2, color="grey", linestyle="--", linewidth=1)
    axes.text(size - 2.05, 60, "Theorem 1 promises none\nup to here", ha="right", fontsize=8, color="#555555")
    axes.set_xticks(range(size))
    axes.set_ylim(-3, 105)
    title = "mean, shade up to the worst case; lines at 0 % coincide"
    axes.legend(fontsize=8, loc="upper left", title=title, title_fontsize=8)
    return figure


def _mean(rows: Rows, count: int) -> float:
    """The mean percentage that this number of colluders recovers."""
    return 100 * mean(where(rows, colluders=count), "recovered")


def _most(rows: Rows, count: int) -> float:
    """The largest percentage that this number of colluders recovers."""
    return 100 * float(max(row["most"] for row in where(rows, colluders=count)))


def judge(rows: Rows) -> list[Verdict]:
    """Below and above the theorem's bound, protocol by protocol."""
    last = [row for row in rows if row["colluders"] == row["members"] - 1]
    alone = min(row["recovered"] for row in where(last, protocol=PAPER))
    one = [row for row in where(rows, colluders=1) if row["protocol"] != PAPER]
    return [
        Verdict(
            "if there is only one honest client, the adversary recovers its full model update",
            f"{alone:.0%} of its encrypted values at least, off by at most {max(row['error'] for row in last):.0e}",
            graded(alone == 1),
        ),
        *(_within(where(rows, protocol=protocol), protocol) for protocol in distinct(rows, "protocol")),
        Verdict(
            "(ours) preset default: is nothing recovered by one colluding client, however much is encrypted?",
            f"at worst {_most(one, 1):.1f} % of {len(one)} clients' encrypted values; preset paper "
            f"{_most(where(rows, protocol=PAPER), 1):.1f} %",
            answer(_most(one, 1) == 0),
        ),
    ]


def _within(rows: Rows, protocol: str) -> Verdict:
    """What colluders recover under one protocol, up to the number that the theorem allows."""
    within = [row for row in rows if row["colluders"] <= row["members"] - 2]
    words = ", ".join(
        f"{count}: {_mean(within, count):.1f} %, at worst {_most(within, count):.1f} %"
        for count in sorted(distinct(within, "colluders"))
    )
    holds = max(row["most"] for row in within) == 0
    least, most = (end(row["encrypted"] for row in within) for end in (min, max))
    says = f"(ours) Theorem 1 under {protocol}: is nothing recovered by at most |G| - 2 colluding clients?"
    why = "Three clients encrypt each block, not all: one colluder is tolerated, no more"
    if protocol == PAPER:
        says = "Theorem 1: with at most |G| - 2 colluding clients the honest ones' models are confidential"
        why = "The proof assumes that all honest clients encrypt the same parameters; they do not"
    return Verdict(
        says,
        f"clients encrypt {least:.0%} to {most:.0%}; colluders and what they recover of it: {words}"
        + ("" if holds else f". {why}"),
        graded(holds) if protocol == PAPER else answer(holds),
    )


ITEM = Item("collusion", "What colluding clients recover", "Appendix J", cells, draw, judge)
