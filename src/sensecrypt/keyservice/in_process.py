"""A key service inside the coordinator's process, for runs on one machine: the same rules, without files.

One process then holds all data, so it protects no client from its operator. The coordinator uses
`InProcessKeyService`, each client the view that `client` returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.crypto.scheme import EncryptionKey
from sensecrypt.errors import Rejected
from sensecrypt.protocol.answers import Acknowledgement, RoundTask
from sensecrypt.protocol.keyserver import KeyServer
from sensecrypt.protocol.ledger import ImportanceOrder
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round, RoundAddress, address_of
from sensecrypt.protocol.updates import FEDAVG, moved_after

Vector = npt.NDArray[np.float32]
_RULE = "rule-"  # prefix of a rule's state in a checkpoint
_KEPT_ROUNDS = 2  # a task has the sensitivities of the next round, and a model is of the round before


class InProcessKeyService:
    """The key server of one run, and the models and orders that its clients may fetch."""

    def __init__(
        self,
        server: KeyServer,
        public: EncryptionKey,
        *,
        clients: int,
        rules: ReleaseRules,
        first: npt.NDArray[np.bool_] | None,
        slot_order: bool,
        workers: int,
        rule: ServerRule = FEDAVG,
    ) -> None:
        """A service for one run.

        Args:
            server: holds the key and the release rules.
            public: the key that clients encrypt with.
            clients: members of the run, numbered from 0.
            rules: the release rules, from which weights follow.
            first: flags of the parameters that come first in every order.
            slot_order: whether slots hold parameters in the importance order, or the order only ranks them.
            workers: processes that decrypt.
            rule: how a round's mean update moves a model.
        """
        self._rule, self._rule_states = rule, dict[int, dict[str, checks.FloatVector]]()
        self._server, self._public, self._rules, self._first = server, public, rules, first
        self._clients, self.slot_order, self._workers = clients, slot_order, workers
        self._samples: dict[int, int] = {}
        self._rounds: dict[RoundAddress, Round] = {}
        self._moved: dict[int, tuple[RoundAddress | None, Vector]] = {}  # by cluster, after its latest round
        self._rankings: dict[int, ImportanceOrder] = {}

    # Requests of the aggregator.

    def run(self, _run: str) -> dict[str, Any]:
        """The release rules, the server's rule, and the members by number."""
        names = {str(client): f"client-{client}" for client in range(self._clients)}
        return {**asdict(self._rules), "server": asdict(self._rule), "names": names}

    def public_key(self, _run: str) -> EncryptionKey:
        """The key that clients encrypt with."""
        return self._public

    def samples(self, _run: str) -> dict[int, int]:
        """How many samples each client has reported."""
        return dict(self._samples)

    def register_round(self, round_: Round) -> None:
        """Keep a round, and forget old rounds of its cluster."""
        kept = {
            place: known
            for place, known in self._rounds.items()
            if place.cluster != round_.cluster or place.number >= round_.number - _KEPT_ROUNDS
        }
        self._rounds = {**kept, address_of(round_): round_}

    def tags(self, round_: Round) -> list[int]:
        """The clients whose tags have arrived; all members where clients share the key, as there are no tags."""
        return self._server.tagged(round_)

    def release(self, aggregate: bytes, round_: Round) -> Acknowledgement:
        """Decrypt and verify a sum, and keep the model or the order that follows."""
        released = self._server.release(aggregate, round_, workers=self._workers)
        if round_.purpose == "sensitivity":
            ranking = self._server.ranking_from(round_, released, first=self._first)
            self._rankings[round_.cluster] = ranking
            if self.slot_order:
                self._server.keep_ranking(round_, ranking)
        else:
            _, before = self._moved.get(round_.cluster, (None, None))
            state = self._rule_states.get(round_.cluster, {})
            moved, state = moved_after(before, released, round_, rule=self._rule, state=state)
            self._moved[round_.cluster], self._rule_states[round_.cluster] = (address_of(round_), moved), state
        return Acknowledgement(released.contributors, released.weight, released.cost)

    # Requests of one client.

    def client(self, number: int) -> ClientView:
        """The key service as that client sees it."""
        return ClientView(self, number)

    # State that a run on one machine saves and reports.

    def moved(self, cluster: int) -> Vector | None:
        """How far a cluster has moved; None if it has no round yet."""
        return self._moved[cluster][1] if cluster in self._moved else None

    def ranking(self, cluster: int) -> ImportanceOrder | None:
        """A cluster's latest order."""
        return self._rankings.get(cluster)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The state that a resumed run needs."""
        tensors: dict[str, npt.NDArray[Any]] = {}
        for cluster, (_, moved) in self._moved.items():
            tensors[f"moved-{cluster}"] = moved
            more = self._rule_states.get(cluster, {})
            tensors |= {f"{_RULE}{cluster}-{name}": vector for name, vector in more.items()}
        for cluster, ranking in self._rankings.items():
            tensors |= {f"order-{cluster}": ranking.order, f"profile-{cluster}": ranking.sensitivities}
        return tensors

    def restore(
        self, run: str, state: Mapping[str, npt.NDArray[Any]], latest: Mapping[int, Round], samples: Mapping[int, int]
    ) -> None:
        """Continue from a state; see `VolatileKeyService`."""
        self._samples = dict(samples)
        for cluster, round_ in latest.items():
            self._rounds[address_of(round_)] = round_
            self._moved[cluster] = (address_of(round_), state[f"moved-{cluster}"])
            own = f"{_RULE}{cluster}-"
            self._rule_states[cluster] = {name[len(own) :]: state[name] for name in state if name.startswith(own)}
        for name in state:
            kind, _, number = name.partition("-")
            if kind == "order":
                ranking = ImportanceOrder(state[name], state[f"profile-{number}"])
                self._rankings[int(number)] = ranking
                if self.slot_order:
                    self._server.restore_order(run, int(number), ranking.order, ranking.sensitivities)


class ClientView:
    """The key service as one client sees it."""

    def __init__(self, service: InProcessKeyService, number: int) -> None:
        self._service, self._number = service, number

    def run(self, run: str) -> dict[str, Any]:
        """The release rules, and this client's number."""
        return {**self._service.run(run), "client": self._number}

    def public_key(self, run: str) -> EncryptionKey:
        """The key that clients encrypt with."""
        return self._service.public_key(run)

    def report_samples(self, _run: str, samples: int) -> None:
        """Keep this client's number of samples; only the first report counts."""
        self._service._samples.setdefault(self._number, samples)

    def rotate_sketch(self, run: str, row: checks.FloatVector) -> checks.FloatVector:
        """The sketch, rotated."""
        return self._service._server.rotate_sketch(run, row)

    def task(self, place: RoundAddress) -> RoundTask:
        """A round of this client, and its members' common secrets."""
        service, round_ = self._service, self._service._rounds.get(place)
        if round_ is None or self._number not in round_.weights:
            raise Rejected("no such round, or the client is no member of it", code="not-a-member")
        ranking = service._rankings.get(place.cluster) if place.purpose == "model" else None
        after = service._rounds.get(replace(place, number=place.number + 1, purpose="sensitivity"))
        seed = service._server.tag_seed
        if place.purpose != "model" or after is None:
            return RoundTask(round_, seed(round_), ranking)
        return RoundTask(round_, seed(round_), ranking, after, seed(after))

    def send_tag(self, tag: bytes, round_: Round) -> None:
        """Take this client's tag."""
        self._service._server.take_tag(tag, round_, sender=self._number)

    def moved(self, place: RoundAddress, size: int) -> Vector:  # noqa: ARG002 (checked where the service is elsewhere)
        """How far this client's cluster has moved."""
        at, moved = self._service._moved.get(place.cluster, (None, None))
        if moved is None or at != place:
            raise Rejected("this round has no released model", code="not-released")
        return moved
