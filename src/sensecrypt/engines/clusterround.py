"""One cluster's round: clients play, the aggregator adds as they arrive, the key server opens, everybody is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sensecrypt import checks
from sensecrypt.engines.notes import Notes, grow, lonely_blocks
from sensecrypt.engines.outcome import Record
from sensecrypt.engines.parties import RUN_NAME, Parties
from sensecrypt.engines.setup import sum_sensitivities
from sensecrypt.engines.state import State
from sensecrypt.engines.work import Done, Proposed, Task, Vector, play_round, propose_blocks
from sensecrypt.engines.worktime import work_seconds
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.policies.maskcrypt import expose
from sensecrypt.policies.situation import blocks_of
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.envelope import seal
from sensecrypt.protocol.messages import Aggregate, Proposal
from sensecrypt.protocol.opened import Opened
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.sumrules import SumRules
from sensecrypt.protocol.updates import model_of, moved_after
from sensecrypt.types import Mask


def play_cluster(
    parties: Parties,
    state: State,
    cluster: int,
    number: int,
    *,
    attempt: int,
    budgets: checks.FloatVector,
    refresh_due: bool,
) -> list[Record]:
    """Play the round, put the cluster's new model into `state`, and return the records.

    Raises:
        Rejected: too little arrived, or what arrived does not verify; `state` is as it was.
    """
    round_ = parties.describe(state.labels, cluster, number, "model", attempt)
    server, vector = parties.keys.server, state.vectors[cluster]
    refresh = None
    if refresh_due:
        after = parties.describe(state.labels, cluster, number + 1, "sensitivity", attempt)
        refresh = (after, server.receipt_seed(after))
    order = server.order(RUN_NAME, cluster) if parties.ordered else None
    profile = server.profile(RUN_NAME, cluster) if parties.ordered else None
    exposed = state.exposed[cluster] if parties.policy.propose else None
    seed, ranking = server.receipt_seed(round_), state.rankings[cluster]
    tasks = [
        Task(client, round_, vector, order, profile, ranking, exposed, float(budgets[client]), seed, refresh)
        for client in round_.weights
    ]
    server_notes: Record = {"round": number, "cluster": cluster, "server": True, "crypto": parties.config.crypto}
    notes = Notes({task.client: {"bytes_down": 0} for task in tasks}, server_notes)
    if parties.policy.propose is not None:
        tasks = _agree(parties, round_, tasks, notes)
    total, done = _collect(parties, round_, tasks, notes)
    _refuse_failure_of_all(round_, done)
    opened, aggregate, message = _open(parties, round_, total, notes.server)
    moved = moved_after(state.moved[cluster], opened, round_)
    model = model_of(parties.initial, moved, round_)
    if parties.config.messages == "keep":
        before = {"model": vector, "moved": state.moved[cluster]} | ({} if order is None else {"order": order})
        _keep(parties, round_, message, before, {"model": model, "moved": moved})
    hidden = Mask(aggregate.mask.flags, aggregate.mask.size, aggregate.mask.block, order)
    notes.server |= {
        "union_share": hidden.share,
        "lonely_blocks": lonely_blocks(total, parties.config.min_contributors),
    }
    _distribute(parties, notes, model, message)
    if refresh is not None:
        try:
            sum_sensitivities(parties, refresh[0], done, notes.server, notes.clients)
        except Rejected as error:  # the model is opened, and will not be again: the old order stays
            notes.server["no_new_order"] = str(error)
    state.vectors[cluster], state.moved[cluster] = model, moved
    if parties.policy.propose is not None:
        state.exposed[cluster] = expose(state.exposed[cluster], hidden.to_array(), model)
    return notes.records()


def _agree(parties: Parties, round_: Round, tasks: Sequence[Task], notes: Notes) -> list[Task]:
    """The first of two exchanges: clients train and propose, the aggregator makes one mask of it."""
    proposed: dict[int, Proposed] = {}
    proposals: dict[int, Proposal] = {}
    limit = blocks_of(parties.config.ratio, round_.blocks, round_.block)
    for each in parties.workers.as_done(propose_blocks, [(task,) for task in tasks], died=_died_proposing):
        try:
            if each.message is None:
                raise Rejected(each.failure or "the client died")
            proposal = Proposal.from_bytes(each.message, round_)
            if proposal.blocks.size > limit:
                raise Rejected(f"client {each.client} proposes {proposal.blocks.size:,} blocks, {limit:,} are allowed")
            proposals[each.client], proposed[each.client] = proposal, each
        except Rejected as error:
            notes.left_out[each.client] = str(error)
    if not proposals or parties.policy.agree is None:
        raise Rejected("no proposal arrived")
    start = work_seconds()
    agreed = parties.policy.agree([proposals[client].blocks for client in sorted(proposals)], round_.blocks, limit)
    parties.charge(notes.server, start, "aggregate_seconds")
    for client, each in proposed.items():
        facts = {"bytes_down": -(-agreed.size // 8), "propose_bytes": len(each.message or b"")}
        grow(notes.clients[client], facts)
    return [
        replace(task, agreed=agreed, trained=proposed[task.client].trained) for task in tasks if task.client in proposed
    ]


def _collect(parties: Parties, round_: Round, tasks: Sequence[Task], notes: Notes) -> tuple[RoundSum, list[Done]]:
    """Let the clients play, and add what arrives as it arrives."""
    total = RoundSum(round_, parties.keys.public)
    arrived: list[Done] = []
    for each in parties.workers.as_done(play_round, [(task,) for task in tasks], died=_died):
        parties.keys.meter.take()
        start = work_seconds()
        try:
            _deliver(parties, each, round_, total)
            arrived.append(each)
            facts = notes.clients[each.client]
            grow(facts, each.facts or {})
            facts["bytes_up"] += facts.get("propose_bytes", 0)
        except Rejected as error:
            notes.left_out[each.client] = str(error)
        parties.charge(notes.server, start, "aggregate_seconds")
    return total, arrived


def _refuse_failure_of_all(round_: Round, done: Sequence[Done]) -> None:
    """One client that fails sends a zero update; where all do, the run has a mistake that its user must hear of."""
    reasons = [(each.facts or {}).get("failure") for each in done]
    if reasons and all(reasons):
        raise SenseCryptError(f"round {round_.number}: no client of cluster {round_.cluster} could train: {reasons[0]}")


def _deliver(parties: Parties, done: Done, round_: Round, total: RoundSum) -> None:
    if done.model is None:
        raise Rejected(done.failure or "the client died")
    data: bytes | None = done.model.upload
    if parties.intercept is not None:
        data = parties.intercept(done.client, round_.number, done.model.upload)
    if data is None:
        raise Rejected("nothing arrived")
    total.add(data, sender=done.client)
    parties.keys.server.take_receipt(done.model.receipt, round_, sender=done.client)
    if parties.config.messages == "keep":
        parties.folder.keep_message(round_.number, f"upload-{done.client}", data)
        if done.own is not None:
            parties.folder.keep_message(round_.number, f"own-{done.client}", seal("own", {}, {"sent": done.own}))


def _open(parties: Parties, round_: Round, total: RoundSum, server: Record) -> tuple[Opened, Aggregate, bytes]:
    """Close the sum and let whoever holds the key open it; also the aggregate as it travels."""
    SumRules(min_contributors=1, quorum=parties.config.quorum).check(round_.weights, total.contributors)
    start = work_seconds()
    aggregate = total.close()
    message = aggregate.to_bytes(round_)
    parties.charge(server, start, "aggregate_seconds")
    start = work_seconds()
    opened = parties.keys.server.open(message, round_, workers=parties.config.workers)
    parties.charge(server, start, "open_seconds")
    return opened, aggregate, message


def _distribute(parties: Parties, notes: Notes, model: Vector, aggregate: bytes) -> None:
    """Members receive the model; where they share the key, the aggregate, which each of them opens."""
    told: Record = {"bytes_down": model.nbytes}
    if parties.config.key_mode == "shared-key":
        told = {key: notes.server.pop(key) for key in ("open_seconds", "decrypt_seconds", "decrypted_blocks")}
        told["bytes_down"] = len(aggregate)
    for facts in notes.clients.values():
        grow(facts, told)


def _keep(
    parties: Parties,
    round_: Round,
    aggregate: bytes,
    members: dict[str, np.ndarray[Any, Any]],
    received: dict[str, np.ndarray[Any, Any]],
) -> None:
    """What the aggregator makes, what members of the cluster know, and what they receive."""
    name, keep = round_.cluster, parties.folder.keep_message
    keep(round_.number, f"aggregate-{name}", aggregate)
    keep(round_.number, f"members-{name}", seal("members", {}, members))
    keep(round_.number, f"opened-{name}", seal("opened", {}, received))


def _died(task: Task) -> Done:
    return Done(task.client, failure="the client's process died")


def _died_proposing(task: Task) -> Proposed:
    return Proposed(task.client, failure="the client's process died")
