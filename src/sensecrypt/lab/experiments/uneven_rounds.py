"""Ten clients in four rounds with fewer classes per client in each; one model, attacked in every round.

In the first round every client has equal parts of all classes; then samples of 5, 2 and 1 classes, and one sample of
every other class. The paper does not say which of them a batch holds, so there are two readings:

* `whole`: the batch is all data of a client, so every class is in every batch; one step per round;
* `drawn`: clients share the whole data set in this way, and the batch is drawn from a client's part; many steps.

Adversaries attack the gradient of the batch at the model that the round starts from. SenseCrypt has one mask per
client, MaskCrypt one for all, by scores that depend on what earlier rounds exposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sensecrypt.algo.ordering import descending_order
from sensecrypt.checks import IntVector
from sensecrypt.data import Dataset, classes_per_client
from sensecrypt.lab.assess.peers import Gradient, Peers
from sensecrypt.lab.assess.protection import Protection, expose
from sensecrypt.lab.attacks.cohort import (
    Model,
    after_local_steps,
    batches_of_few_classes,
    client_of_round,
    mean_model,
    own_classes,
)
from sensecrypt.lab.attacks.ladder import attack_labels
from sensecrypt.lab.attacks.observation import Observation
from sensecrypt.lab.attacks.synthetic import SyntheticClient, per_class, samples_at
from sensecrypt.lab.experiments.item import Row
from sensecrypt.models import build_model, get_vector
from sensecrypt.policies import maskcrypt
from sensecrypt.rng import derive_rng, derive_seed
from sensecrypt.types import BoolVector

SENSE, MASK, OURS, NOTHING = "SenseCrypt", "MaskCrypt", "SenseCrypt (default)", "nothing"
PUBLIC_PER_CLASS = 50


class ClusterPeers(Peers):
    """A client and the clients of its round with the same classes, as in its cluster."""

    def __init__(self, client: SyntheticClient, alike: Sequence[Gradient]) -> None:
        """Keep the gradients of the cluster; `others` and `jacobian` are not used here."""
        nothing: npt.NDArray[np.uint8] = np.empty((0, 1, 1, 1), dtype=np.uint8)
        super().__init__(client, nothing, np.empty(0, dtype=np.int64), seed=0)
        self._alike = list(alike)

    @property
    def alike(self) -> list[Gradient]:
        """Gradients of the others in the cluster; none if the client is alone."""
        return self._alike


def rounds(
    model: str,
    data: Dataset,
    *,
    kinds: Sequence[str],
    reading: str,
    clients: int,
    samples: int,
    share: float,
    steps: int,
    learning_rate: float,
    seed: int,
    attacks: Sequence[str],
    strong: Sequence[str] = (),
    strong_clients: int = 0,
) -> Iterator[Row]:
    """Rows of all rounds: one per client, method and adversary.

    `kinds` has `iid` or a number of classes per round. Batches have `samples`, and both methods encrypt `share` of the
    model. Clients do `steps` per round; with the reading `whole`, 1. The first `strong_clients` are also attacked by
    the adversaries in `strong`, which have public data.
    """
    build = partial(build_model, model, seed=derive_seed(seed, "uneven model"))
    network = build().eval()
    own = partial(samples_at, data.train_images, data.train_labels)
    before = exposed = get_vector(network)
    for number, kind in enumerate(kinds):
        k = data.classes if kind == "iid" else int(kind)
        rng = derive_rng(seed, f"uneven round {number} {reading}")
        parts = _parts(data, reading, clients, k, samples, rng)
        batches = [part if reading == "whole" else np.sort(rng.choice(part, samples, replace=False)) for part in parts]
        public = None
        if strong_clients:
            free = np.setdiff1d(np.arange(len(data.train_labels)), np.concatenate(batches))
            public = own(per_class(data.train_labels, free, data.classes, PUBLIC_PER_CLASS, rng))
        step = partial(client_of_round, classes=data.classes, learning_rate=learning_rate, public=public)
        members = [step(build, before, own(batch)) for batch in batches]
        trained = [client.weights for client in members]
        if steps > 1:
            train = partial(after_local_steps, steps=steps, batch=samples, learning_rate=learning_rate, rng=rng)
            trained = [train(network, before, own(part)) for part in parts]
        agreed = agreed_mask(exposed, trained, members, share)
        for place, client in enumerate(members):
            names = (*attacks, *(strong if place < strong_clients else ()))
            alike = _alike(members, place, k, data.classes) if place < strong_clients else None
            for row in _attacked(client, agreed, share, names, alike):
                yield {"classes": kind, "round": number + 1, "client": place, "seed": seed, **row}
        before = mean_model(trained, [len(part) for part in parts])
        exposed = maskcrypt.expose(exposed, agreed, before)


def agreed_mask(
    exposed: Model, trained: Sequence[Model], clients: Sequence[SyntheticClient], share: float
) -> BoolVector:
    """MaskCrypt's mask of a round: the clients' proposals, first choices first, up to the share.

    Scores depend on `exposed`, the model as an adversary knows it, on the clients' models after training, and on their
    gradients at the model that the round starts from.
    """
    size = exposed.size
    limit = round(share * size)
    proposals = []
    for weights, client in zip(trained, clients, strict=True):
        scores = maskcrypt.score(exposed, weights, client.gradient.astype(np.float32))
        proposals.append(np.argsort(-scores, kind="stable")[:limit])
    return maskcrypt.agree(proposals, size, limit)


def _parts(
    data: Dataset, reading: str, clients: int, k: int, samples: int, rng: np.random.Generator
) -> list[IntVector]:
    """The samples of each client."""
    if reading == "whole":
        return batches_of_few_classes(data.train_labels, clients, k, classes=data.classes, samples=samples, rng=rng)
    return classes_per_client(data.train_labels, clients, k, rng=rng, stray=1)


def _alike(clients: Sequence[SyntheticClient], place: int, k: int, classes: int) -> list[Gradient]:
    """Gradients of the other clients with the same classes."""
    own = set(own_classes(place, k, classes))
    same = [other for other in range(len(clients)) if other != place and set(own_classes(other, k, classes)) == own]
    return [clients[other].gradient.astype(np.float32) for other in same]


def _attacked(
    client: SyntheticClient, agreed: BoolVector, share: float, names: Sequence[str], alike: list[Gradient] | None
) -> Iterator[dict[str, Any]]:
    """Every adversary under every method, guessing and no encryption included."""
    own = np.zeros(client.sensitivity.size, dtype=bool)
    own[descending_order(client.sensitivity)[0][: round(share * own.size)]] = True
    seen: dict[str, tuple[Observation, BoolVector]] = {
        NOTHING: (client.observe(np.zeros_like(own)), np.zeros_like(own)),
        MASK: (client.observe(agreed), agreed),
        SENSE: (client.observe(own, clear_sensitivity=True), own),
    }
    if alike is not None:
        found = expose(Protection("sensecrypt", "default", share, "plain"), ClusterPeers(client, alike))
        seen[OURS] = (found.to(client, colluding=False), found.hidden)
    for method, (observation, hidden) in seen.items():
        for name, scores in attack_labels(observation, client.counts, ("prior", *names)):
            found_by = {"method": method, "adversary": name, "share": float(hidden.mean())}
            yield {**found_by, "leacc": scores.leacc, "lnacc": scores.lnacc}
