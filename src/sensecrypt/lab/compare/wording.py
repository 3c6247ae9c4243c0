"""Sentences about compared protections, for the terminal and for the report page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

STEPS = ("train", "select", "encrypt", "upload", "download", "decrypt")
ATTACKS = {  # what the adversaries of the ladder do, in a table's cell
    "zero-fill": "reading the update",
    "zero-fill-direction": "reading its direction",
    "stale-fill": "using the last round",
    "completion": "solving for the rest",
    "prototype": "using public data",
    "mask-only": "reading the mask",
    "collusion": "one client's help",
    "sensitivity": "reading sensitivities",
    "value-matching": "matching values",
}


def round_seconds(row: Row) -> float:
    """Device time of the last round."""
    return float(row["rounds"][-1]["seconds"])


def client_seconds(client: Row) -> float:
    """Device time of a client in the last round, without waiting."""
    return float(sum(client[step] for step in STEPS))


def spoken(seconds: float) -> str:
    """A duration."""
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:,.0f} s"


def attack_cell(row: Row) -> str:
    """How the labels were found."""
    return {"learns": ATTACKS[row["strongest"]], "guesses": "guessing"}.get(row["verdict"], "unclear")


def demo_findings(rows: Sequence[Row]) -> list[str]:
    """The tables of the demo in words.

    Args:
        rows: no protection, everything, selective as the paper, blinding, SenseCrypt.
    """
    plain, everything, paper, blinding, ours = rows
    slowest = max(everything["timeline"], key=client_seconds)["device"].replace("-", " ")
    times = round_seconds(everything) / round_seconds(paper)
    return [
        f"No protection: the aggregator finds {plain['found']:.0%} of the labels in a client's data; guessing finds "
        f"{plain['guessing']:.0%}.",
        "Everything by Paillier, one value per ciphertext, charged at python-paillier's cost: all wait "
        f"{spoken(round_seconds(everything))} for the {slowest}.",
        f"Selective, as the paper: the most sensitive parameters first, as many as processor and line afford. "
        f"{times:.0f} times faster, but {_found(paper)}.",
        f"Blinding only: {spoken(round_seconds(blinding))}, but whoever records a client's connection to the key "
        "server can read its update later.",
        f"SenseCrypt: {ours['encrypted_share']:.0%} encrypted by ring-LWE in {spoken(round_seconds(ours))}; what a "
        f"device cannot afford is blinded. Sensitivities stay secret: {_found(ours)}.",
    ]


def recommendation(rows: Sequence[Row], recommended: Sequence[str], seeds: int) -> str:
    """One paragraph: what to use, and why; or why there is no answer.

    Args:
        rows: all compared protections, no protection first.
        recommended: labels of those that may be recommended.
        seeds: how many clients were attacked.
    """
    ours = [row for row in rows if row["label"] in recommended]
    safe = [row for row in ours if row["verdict"] == "guesses"]
    if not safe:
        if all(row["verdict"] == "learns" for row in ours):
            return "No recommendation: an attacker learns labels under every protection that was compared."
        return (
            f"Unclear: {seeds} attacked clients are too few to say which protection is safe. Attack more, such as "
            f"--seeds {max(10, 2 * seeds)}."
        )
    best, plain = min(safe, key=round_seconds), rows[0]
    least = "everything" if best["weakest_share"] == 1 else f"at least {best['weakest_share']:.0%}"
    own = "".join(f" with {key}={value}" for key, value in best["settings"].items())
    return (
        f"Use the default preset{own}: a round takes {spoken(round_seconds(best))} on the slowest device, "
        f"{round_seconds(best) / round_seconds(plain):.1f} times as long as without protection; every device encrypts "
        f"{least}, and no attacker finds more labels than guessing."
    )


def _found(row: Row) -> str:
    if row["verdict"] == "learns":
        return f"{ATTACKS[row['strongest']]} finds {row['found']:.0%} of the labels"
    if row["verdict"] == "guesses":
        return "attackers find no more labels than guessing"
    return "too few clients were attacked to say what attackers find"
