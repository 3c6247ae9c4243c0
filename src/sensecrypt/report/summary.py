"""Key figures of a run, findings, settings, and the command that repeats it."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from sensecrypt.config import RunConfig, make_config, setting_text, to_settings
from sensecrypt.records import servers_of
from sensecrypt.report.figures import Card
from sensecrypt.report.folder import Seen
from sensecrypt.report.words import count, megabytes, noise_words, percent, seconds
from sensecrypt.runs.outcome import Outcome
from sensecrypt.simulation.clock import RoundTime, total_seconds


def cards(seen: Seen, times: Sequence[RoundTime]) -> list[Card]:
    """The figures at the top."""
    outcome, problem = seen.outcome, seen.outcome.config.problem
    totals = outcome.summary()
    known = [value for value in outcome.accuracy if value == value]
    spread = f"last round, {percent(min(known))} to {percent(max(known))} by client" if known else "not reported yet"
    waiting = fmean(each.straggler_share for each in times if each.number >= 0) if seen.rounds else 0.0
    here = "" if math.isnan(outcome.wall_seconds) else f"; time here {seconds(outcome.wall_seconds)}"
    clusters = len({label for label in outcome.labels if label >= 0})
    return [
        Card("Accuracy", percent(totals["accuracy"]), spread),
        Card("Encrypted", percent(totals["encrypted_share"]), f"mean of all rounds; {_weakest(outcome)}"),
        Card("Sensitivity covered", percent(totals["coverage"]), "by encryption, mean of all rounds"),
        Card("Device time", seconds(total_seconds(times)), f"{percent(waiting)} of a round is waiting{here}"),
        Card("Sent up", megabytes(totals["bytes_up"]), f"{megabytes(totals['bytes_down'])} down, all rounds"),
        Card("Clusters", str(clusters or "none yet"), f"{count(problem.clients, 'client')}, {problem.partition}"),
    ]


def findings(seen: Seen, times: Sequence[RoundTime]) -> list[str]:
    """Sentences: devices, slowest client, encrypted shares, exposure."""
    outcome = seen.outcome
    if not outcome.played:
        return []
    sentences = [_devices(outcome.config), _held_up(outcome, times), _encrypted(outcome), *_exposed(outcome)]
    if outcome.why_clusters:
        sentences.append(f"Grouping: {outcome.why_clusters}.")
    noise = outcome.summary()["sensitivity_noise"]
    if noise is not None:
        sentences.append(f"{noise_words(noise)}.")
    sentences += [f"{line[0].upper()}{line[1:]}." for line in seen.absences]
    return [sentence for sentence in sentences if sentence]


def settings(config: RunConfig) -> list[tuple[str, str]]:
    """All settings, as `--set` takes them."""
    return [(key, setting_text(value)) for key, value in to_settings(config).items()]


def command(config: RunConfig) -> str:
    """The command that repeats the run, with the settings that differ from the preset."""
    usual = to_settings(make_config({"preset": config.preset}))
    changed = [
        f"{key}={setting_text(value)}"
        for key, value in to_settings(config).items()
        if key != "preset" and value != usual.get(key)
    ]
    preset = [] if config.preset == "default" else ["--preset", config.preset]
    return shlex.join(["sensecrypt", "run", *preset, *(part for change in changed for part in ("--set", change))])


def _shares(outcome: Outcome) -> dict[int, float]:
    """The mean encrypted share of each client."""
    shares: dict[int, list[float]] = {}
    for record in outcome.played:
        shares.setdefault(record.client, []).append(record.encrypted_share or 0.0)
    return {client: fmean(values) for client, values in shares.items()}


def _weakest(outcome: Outcome) -> str:
    shares = _shares(outcome)
    if not shares:
        return "nothing yet"
    client = min(shares, key=lambda each: shares[each])
    return "every client" if shares[client] == 1 else f"least: client {client}, {percent(shares[client])}"


def _devices(config: RunConfig) -> str:
    kinds = Counter(config.device_name(client, 0) for client in range(config.problem.clients))
    named = ", ".join(f"{number} {name}" for name, number in kinds.items())
    return f"Devices: {named}; the server has {config.machines.server_cpus:g} processors."


def _held_up(outcome: Outcome, times: Sequence[RoundTime]) -> str:
    rounds = [time for time in times if time.number >= 0 and len(time.clients) > 1]
    if not rounds:
        return ""
    last = Counter(min(time.clients, key=lambda each: time.clients[each].wait) for time in rounds)
    client, often = last.most_common(1)[0]
    number = rounds[-1].number
    device, name = outcome.config.device(client, number), outcome.config.device_name(client, number)
    waiting = fmean(time.straggler_share for time in rounds)
    return (
        f"Client {client} ({name}, {device.bandwidth:g} MB/s) was the slowest in {often} of "
        f"{count(len(rounds), 'round')}. The mean client waited {percent(waiting)} of a round."
    )


def _encrypted(outcome: Outcome) -> str:
    shares = _shares(outcome)
    low, high = min(shares, key=lambda each: shares[each]), max(shares, key=lambda each: shares[each])
    if shares[low] == shares[high]:
        return f"Every client encrypted {percent(shares[low])} of its parameters."
    return (
        f"Client {high} encrypted most, {percent(shares[high])} of its parameters, client {low} least, "
        f"{percent(shares[low])}."
    )


def _exposed(outcome: Outcome) -> list[str]:
    totals = outcome.summary()
    rest, uncovered = 1 - totals["encrypted_share"], 1 - totals["coverage"]
    sentences = ["No parameter was sent in the clear."]
    if rest > 0:
        how = (
            "Blinded, so that only the key server can read their sum"
            if outcome.config.encryption.blinded
            else "In the clear"
        )
        sentences = [
            f"{how}: {percent(rest)} of the parameters, which hold {percent(max(0.0, uncovered))} of the sensitivity."
        ]
    under_covered = sum(record.under_covered_blocks or 0 for record in servers_of(outcome.log))
    least = outcome.config.release.min_contributors
    if under_covered:
        sentences.append(
            f"{count(under_covered, 'block')} were encrypted by fewer than {least} clients: colluding clients may read "
            "them."
        )
    absent = sum(not record.counts for record in outcome.records)
    if absent:
        sentences.append(f"FAILED: {count(absent, 'upload')} did not count (crosses below; reasons in the table).")
    return sentences
