"""The first of two exchanges, in methods that have two: clients train and propose, the coordinator makes one mask."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sensecrypt.coordinator.collection import Collecting
from sensecrypt.coordinator.context import Coordination
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.policies.situation import blocks_of
from sensecrypt.protocol.coordination import require_parts
from sensecrypt.protocol.messages import Proposal
from sensecrypt.runs.notes import grow
from sensecrypt.worktime import work_seconds

Requests = dict[int, dict[str, bytes]]


def agree_on_masks(run: Coordination, asked: Mapping[int, Collecting], requests: Requests) -> Requests:
    """The requests to those who proposed, each with what their cluster agreed on.

    Args:
        run: the run.
        asked: each client's round.
        requests: the assignments of both exchanges.
    """
    agree = run.policy.agree
    if agree is None:
        raise SenseCryptError(f"policy {run.config.selection.policy} has proposals and no agreement")
    proposals: dict[int, Proposal] = {}
    for reply in run.transport.ask("propose", requests, seconds=run.patience.deadline):
        each = asked[reply.client]
        try:
            message = require_parts(reply.content, needed={"proposal"})["proposal"]
            proposal, limit = Proposal.from_bytes(message, each.round), _limit(run, each)
            if proposal.client != reply.client:
                raise Rejected(f"client {reply.client} sent a proposal of client {proposal.client}")
            if proposal.blocks.size > limit:
                raise Rejected(f"client {reply.client} proposes {proposal.blocks.size:,} blocks, {limit:,} are allowed")
            proposals[reply.client] = proposal
            grow(each.notes.clients[reply.client], {"propose_bytes": len(message)})
        except Rejected as error:
            each.notes.left_out[reply.client] = str(error)
    agreed: Requests = {}
    for each in set(asked.values()):
        own = [client for client in sorted(proposals) if asked[client] is each]
        if not own:
            continue
        start = work_seconds()
        flags = agree([proposals[client].blocks for client in own], each.round.blocks, _limit(run, each))
        grow(each.notes.server, {"aggregate_seconds": work_seconds() - start})
        message = np.packbits(flags).tobytes()
        for client in own:
            grow(each.notes.clients[client], {"bytes_down": len(message)})
            agreed[client] = {**requests[client], "agreed": message}
    return agreed


def _limit(run: Coordination, collecting: Collecting) -> int:
    return blocks_of(run.config.selection.ratio, collecting.round.blocks, collecting.round.block)
