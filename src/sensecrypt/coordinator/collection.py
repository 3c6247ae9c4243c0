"""A cluster's round at the coordinator while its uploads arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sensecrypt.coordinator.checkpoint import Closed
from sensecrypt.coordinator.partedsum import PartedSum
from sensecrypt.coordinator.ports import Observer, Reply
from sensecrypt.errors import Rejected
from sensecrypt.protocol.coordination import facts_from_bytes, require_parts
from sensecrypt.protocol.round import Round
from sensecrypt.runs.notes import Notes, grow, server_facts, under_covered_blocks
from sensecrypt.worktime import work_seconds

_SPOILT = "the sum matches the tags only without some clients, this one among them"
_ALONE = "not all of its group arrived, and sums are of whole groups"


class Tagged:
    """Whose tags of one round the key service has: asked again only for a client that was not among them."""

    def __init__(self, round_: Round, ask: Callable[[Round], list[int]]) -> None:
        """Nobody is known yet."""
        self._round, self._ask = round_, ask
        self._known: set[int] = set()

    def require(self, client: int) -> None:
        """Raise `Rejected` unless the key service has this client's tag."""
        if client not in self._known:
            self._known = set(self._ask(self._round))
        if client not in self._known:
            raise Rejected("an upload for which the key service has no tag")


@dataclass(eq=False)
class Collecting:
    """A cluster's round while its uploads arrive.

    Attributes:
        round: the round.
        invited: the members that are asked to train.
        total: the sum.
        after: the round of sensitivities that goes with it, if a new order is due.
        sensitivities: their sum.
        notes: what is written down.
        tags: asks the key service whose tags of a round it has.
        observer: sees what arrives.
        evaluated: the accuracy, at each client, of the model that it started from.
    """

    round: Round
    invited: set[int]
    total: PartedSum
    after: Round | None
    sensitivities: PartedSum | None
    notes: Notes
    tags: Callable[[Round], list[int]]
    observer: Observer
    evaluated: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """No tags are known yet."""
        self._tagged = Tagged(self.round, self.tags)
        self._tagged_after = None if self.after is None else Tagged(self.after, self.tags)

    def take(self, reply: Reply) -> None:
        """Add what a client sent; what cannot be used is noted, and the sum stays as it was."""
        client, start, before = reply.client, work_seconds(), self.total.cost.total_seconds
        try:
            parts = require_parts(reply.content, needed={"upload", "facts"}, allowed={"sensitivity"})
            facts = facts_from_bytes(parts["facts"], "train")
            self._tagged.require(client)
            self.total.add(parts["upload"], sender=client)
            self.observer.arrived(self.round, client, parts["upload"])
            if "accuracy" in facts:
                self.evaluated[client] = facts.pop("accuracy")
            facts["bytes_up"] += self.notes.clients[client].get("propose_bytes", 0)
            grow(self.notes.clients[client], facts)
            if self.sensitivities is not None and self._tagged_after is not None and "sensitivity" in parts:
                self._tagged_after.require(client)
                self.sensitivities.add(parts["sensitivity"], sender=client)
        except Rejected as error:
            if client not in self.total.arrived:
                self.notes.left_out[client] = str(error)
        took = work_seconds() - start - (self.total.cost.total_seconds - before)
        grow(self.notes.server, {"aggregate_seconds": max(0.0, took)})

    def close(self, min_contributors: int, *, without: int | None = None) -> Closed:
        """Close the sums, all or all but one part."""
        start = work_seconds()
        total = self.total.total(without=without)
        aggregate = total.close()
        model, sensitivity = aggregate.to_bytes(self.round), None
        cost = self.total.cost_with(total)
        if self.after is not None and self.sensitivities is not None:
            gains = self.sensitivities.total(without=without)
            sensitivity = gains.close().to_bytes(self.after) if gains.contributors else None
        took = max(0.0, work_seconds() - start - total.cost.total_seconds)
        server = {**self.notes.server, **server_facts(cost, multiplied=self.round.factors is not None)}
        grow(server, {"aggregate_seconds": took})
        server |= {
            "union_share": aggregate.mask.share,
            "under_covered_blocks": under_covered_blocks(total, min_contributors),
        }
        alone = dict.fromkeys(self.total.arrived - set(self.total.contributors), _ALONE)
        spoilt = dict.fromkeys(set(self.total.contributors) - set(total.contributors), _SPOILT)
        notes = Notes(self.notes.clients, server, self.notes.left_out | alone | spoilt)
        where, members = (self.round.cluster, self.round.number, self.round.attempt), sorted(self.round.weights)
        return Closed(*where, model, sensitivity, notes.records(), members)
