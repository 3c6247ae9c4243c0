"""A cluster's round at the aggregator while its uploads arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sensecrypt.config import RunConfig
from sensecrypt.engines.flower.checkpoint import Closed
from sensecrypt.engines.flower.exchange import Reply
from sensecrypt.engines.flower.messages import facts_from_bytes
from sensecrypt.engines.flower.partedsum import PartedSum
from sensecrypt.engines.flower.wire import unpack
from sensecrypt.engines.notes import Notes, grow, lonely_blocks
from sensecrypt.engines.worktime import work_seconds
from sensecrypt.errors import Rejected
from sensecrypt.protocol.round import Round

_SPOILT = "the sum matches the receipts only without some clients, this one among them"

_ALONE = "not all of its group arrived, and sums are of whole groups"


@dataclass(eq=False)
class Collecting:
    """A cluster's round while its uploads arrive.

    Attributes:
        round: the round.
        invited: the members that are asked to play.
        total: the sum.
        after: the round of sensitivities that goes with it, if a new order is due.
        sensitivities: their sum.
        notes: what is written down.
        signed: tells whose receipts of a round the key service has.
        evaluated: the accuracy, at each client, of the model that it started from.
    """

    round: Round
    invited: set[int]
    total: PartedSum
    after: Round | None
    sensitivities: PartedSum | None
    notes: Notes
    signed: Callable[[Round], list[int]]
    evaluated: dict[int, float] = field(default_factory=dict)

    def take(self, client: int, reply: Reply) -> None:
        """Add what a client sent; what cannot be used is noted, and the sum stays as it was."""
        start = work_seconds()
        try:
            parts = unpack(reply.content, needed={"upload", "facts"}, allowed={"sensitivity"})
            facts = facts_from_bytes(parts["facts"], "play")
            if client not in self.signed(self.round):
                raise Rejected("an upload for which the key service has no receipt")
            self.total.add(parts["upload"], sender=client)
            if "accuracy" in facts:
                self.evaluated[client] = facts.pop("accuracy")
            grow(self.notes.clients[client], facts)
            if self.after is not None and self.sensitivities is not None and "sensitivity" in parts:
                if client not in self.signed(self.after):
                    raise Rejected("sensitivities for which the key service has no receipt")
                self.sensitivities.add(parts["sensitivity"], sender=client)
        except Rejected as error:
            if client not in self.total.arrived:
                self.notes.left_out[client] = str(error)
        grow(self.notes.server, {"aggregate_seconds": work_seconds() - start})

    def close(self, config: RunConfig, *, without: int | None = None) -> Closed:
        """Close the sums, all or all but one part."""
        start = work_seconds()
        total = self.total.total(without=without)
        aggregate = total.close()
        model, sensitivity = aggregate.to_bytes(self.round), None
        if self.after is not None and self.sensitivities is not None:
            gains = self.sensitivities.total(without=without)
            sensitivity = gains.close().to_bytes(self.after) if gains.contributors else None
        grow(self.notes.server, {"aggregate_seconds": work_seconds() - start})
        lonely = lonely_blocks(total, config.min_contributors)
        server = {**self.notes.server, "union_share": aggregate.mask.share, "lonely_blocks": lonely}
        alone = dict.fromkeys(self.total.arrived - set(self.total.contributors), _ALONE)
        spoilt = dict.fromkeys(set(self.total.contributors) - set(total.contributors), _SPOILT)
        notes = Notes(self.notes.clients, server, self.notes.left_out | alone | spoilt)
        round_ = self.round
        return Closed(round_.cluster, round_.number, round_.attempt, model, sensitivity, notes.records())
