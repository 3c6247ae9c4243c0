"""The key server (the paper's DKMS): holds the secret key and decrypts only verified sums, each once.

It also keeps what clients share and the aggregator must not know: the tag seeds, and each cluster's order of the
parameters. It rotates sketches: it lacks their seed, which clients have from the aggregator, and the aggregator lacks
the rotation. What it must remember is in a `Ledger`.
"""

from __future__ import annotations

import hmac
from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.algo.ordering import descending_order
from sensecrypt.algo.sketching import rotate
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey, Ints
from sensecrypt.errors import InvalidCiphertext, InvalidInput, Rejected
from sensecrypt.protocol.ledger import ImportanceOrder, Ledger, MemoryLedger
from sensecrypt.protocol.messages import Aggregate, Tag
from sensecrypt.protocol.releaserules import ReleaseRules, check_groups
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import PRIME, Blinding, mac_tag, sum_of, taggable, wrap
from sensecrypt.protocol.updates import ReleasedSum, within_clip
from sensecrypt.worktime import Cost


def decrypt_aggregate(
    aggregate: Aggregate,
    round_: Round,
    secret: DecryptionKey,
    order: checks.IntVector | None,
    *,
    blindings: Iterable[Blinding] = (),
    workers: int = 1,
) -> tuple[Ints, Ints, bool, Cost]:
    """Decrypt what somebody encrypted, add what somebody did not minus its blinding, and undo the order.

    Returns:
        The sums over those who encrypted, 0 where nobody did; the sums over everybody; whether the ciphertexts were
        of packed numbers; and what decrypting them cost. If they were not, ones stand for them, so that a sum that
        fails takes as long as one that does not.

    Args:
        aggregate: the sum.
        round_: its round.
        secret: the key.
        order: slot s holds parameter order[s]; None: the natural order.
        blindings: of the contributors that blind.
        workers: processes.
    """
    encrypted, rest = np.zeros(round_.size, dtype=np.int64), -sum_of(blindings, round_)
    rest[~aggregate.common.to_array()] += aggregate.plain
    sound, cost = True, Cost()
    if aggregate.mask.blocks:
        try:
            with cost.of("decrypt", aggregate.mask.blocks):
                decrypted = secret.decrypt(aggregate.ciphertexts, aggregate.mask.count, workers=workers)
        except InvalidCiphertext:
            decrypted, sound = np.ones(aggregate.mask.count, dtype=np.int64), False
        encrypted[aggregate.mask.to_array()] = decrypted
    return _in_order(encrypted, order), _in_order(wrap(encrypted + rest, round_), order), sound, cost


def _in_order(in_slots: Ints, order: checks.IntVector | None) -> Ints:
    if order is None:
        return in_slots
    values = np.empty_like(in_slots)
    values[order] = in_slots
    return values


MISMATCH = "the sum does not match the tags: an upload is missing, doubled, altered or not clipped"
"""All that is told about a sum that fails, whatever it decrypts to: more would answer questions about ciphertexts."""
MOST_FAILURES = 12
"""Sums of a run that may fail where forged ciphertexts show the key: each tells one bit of it (decision 19)."""
_RULES = ReleaseRules()


class KeyServer:
    """Decrypts once per (run, round, cluster, purpose), only sums of enough clients, and only what verifies.

    How often sums may fail is the business of whoever lets others ask, see `keyservice.http`; but where forged
    ciphertexts show the key it gives up after `MOST_FAILURES`, wherever it runs.
    """

    def __init__(
        self, secret: DecryptionKey, *, rules: ReleaseRules = _RULES, ledger: Ledger | None = None, statistics: int = 0
    ) -> None:
        """A server for one key pair.

        Args:
            secret: the key.
            rules: for the sums that it decrypts.
            ledger: its memory; None: one that ends with this process, its seeds from the operating system.
            statistics: how many values at the end of an update are no parameters: the bound on updates is not theirs.
        """
        self._secret, self._statistics = secret, statistics
        self._rules = rules
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._failed = 0

    @property
    def public(self) -> EncryptionKey:
        """The key to encrypt with."""
        return self._secret.public

    def turn(self, run: str, row: checks.FloatVector) -> checks.FloatVector:
        """A client's sketch as the aggregator may have it: turned by a rotation that nobody else knows."""
        return rotate(row, seed=self._derive("turn", run))

    def tag_seed(self, round_: Round) -> bytes:
        """The clients' shared seed for one round's tags."""
        return self._derive("tag", *map(str, round_.header.values()))

    def order(self, run: str, cluster: int) -> checks.IntVector | None:
        """The cluster's order of the parameters: slot s holds parameter order[s]; None as long as there is none."""
        ranking = self._ledger.ranking(run, cluster)
        return None if ranking is None else ranking.order

    def take_tag(self, data: bytes, round_: Round, *, sender: int) -> None:
        """Keep one client's tag; a second one of the same client is refused."""
        message = Tag.from_bytes(data, round_)
        if message.client != sender or sender not in round_.weights:
            raise Rejected(f"client {sender} sent a tag that is not its own", code="not-a-member")
        if not self._ledger.keep_tag(round_, message):
            raise Rejected(f"client {sender} has sent a tag already", code="doubled-tag")

    def check_contributors(self, contributors: tuple[int, ...], round_: Round) -> None:
        """Raise `Rejected` unless a sum of these clients may be released: then nothing needs to be decrypted."""
        self._check_contributors(contributors, self._ledger.tags(round_), round_)

    def release(
        self, data: bytes, round_: Round, *, workers: int = 1, samples: Mapping[int, float] | None = None
    ) -> ReleasedSum:
        """Decrypt an aggregate after all checks that need no decryption, and verify it before giving it away.

        Args:
            data: the aggregate.
            round_: its round.
            workers: processes that decrypt.
            samples: of every contributor, where it brings its own weight and the round weighs all members alike.
        """
        aggregate = Aggregate.from_bytes(data, round_)
        if self._ledger.was_released(round_):
            raise Rejected("this sum was decrypted already", code="already-decrypted")
        if self._failed >= MOST_FAILURES and self.public.profile.forgeries_show_key:
            raise Rejected(f"{self._failed} sums of this run have failed", code="run-closed")
        tags = self._ledger.tags(round_)
        self._check_contributors(aggregate.contributors, tags, round_)
        if samples is not None:
            self._check_samples(aggregate.contributors, samples)
        ranking = self._ledger.ranking_of(round_) if round_.purpose == "model" else None
        order = None if ranking is None else ranking.order
        given = [tags[client] for client in aggregate.contributors]
        blindings = [each.blinding for each in given if each.blinding is not None]
        decrypted = decrypt_aggregate(aggregate, round_, self._secret, order, blindings=blindings, workers=workers)
        encrypted, values, sound, cost = decrypted
        verified = _verifies(encrypted, values, aggregate, given, round_, seed=self.tag_seed(round_)) and sound
        released = ReleasedSum(values, round_.divisor(aggregate.contributors), aggregate.contributors, cost)
        bounded = within_clip(released, round_, statistics=self._statistics)
        # Sensitivities are not negative, and some are positive. Others come from a client that deviates: it is found
        # like one whose tags are wrong, and the cluster keeps its order.
        ranks = round_.purpose != "sensitivity" or bool((values.min() >= 0) & (values.max() > 0))
        if not (verified and ranks and bounded):
            self._failed += 1
            raise Rejected(MISMATCH, code="tags-mismatch")
        self._ledger.keep_released(round_, released)
        return released

    def restore_order(self, run: str, cluster: int, order: checks.IntVector, gains: checks.FloatVector) -> None:
        """Keep an order that was made before a restart, and its blocks' sensitivities."""
        checked, gains = checks.permutation("order", order, order.size), checks.sensitivity_vector("gains", gains)
        self._ledger.keep_ranking(run, cluster, ImportanceOrder(checked, gains))

    def tagged(self, round_: Round) -> list[int]:
        """Whose tags have arrived."""
        return sorted(self._ledger.tags(round_))

    def set_order(
        self, round_: Round, sums: ReleasedSum, *, first: npt.NDArray[np.bool_] | None = None
    ) -> checks.IntVector:
        """The cluster's new order: descending mean sensitivity, after those parameters that must come `first`."""
        ranking = self.ranking_from(round_, sums, first=first)
        self.keep_ranking(round_, ranking)
        return ranking.order

    def keep_ranking(self, round_: Round, ranking: ImportanceOrder) -> None:
        """Parameters of the round's cluster are in this order from now on."""
        self._ledger.keep_ranking(round_.run, round_.cluster, ranking)

    def ranking_from(
        self, round_: Round, sums: ReleasedSum, *, first: npt.NDArray[np.bool_] | None = None
    ) -> ImportanceOrder:
        """The order that these sums give; nothing is kept."""
        gains = np.maximum(sums.values, 0).astype(np.float64)
        order, _ = descending_order(gains)
        if first is not None:
            order = np.concatenate([order[first[order]], order[~first[order]]])
        return ImportanceOrder(order, np.add.reduceat(gains[order], np.arange(0, round_.size, round_.block)))

    def _check_contributors(self, contributors: tuple[int, ...], tags: Container[int], round_: Round) -> None:
        if len(set(contributors)) != len(contributors):
            raise Rejected("a contributor is counted twice", code="doubled-contributor")
        if not set(contributors) <= round_.weights.keys():
            raise Rejected("a contributor is no member of the cluster", code="not-a-member")
        self._rules.check(round_.weights, contributors)
        if self._rules.fixed_groups:
            weights = {client: round_.weights[client] for client in contributors}
            check_groups(weights, self._ledger.released(round_.run, round_.purpose), self._rules.min_contributors)
        if missing := [client for client in contributors if client not in tags]:
            raise Rejected(f"no tag of client {missing[0]}", code="no-tag")

    def _check_samples(self, contributors: tuple[int, ...], samples: Mapping[int, float]) -> None:
        """That nobody dominates the sum by what it counts itself."""
        if silent := [client for client in contributors if not samples.get(client, 0) > 0]:
            raise Rejected(f"client {silent[0]} has not told how many samples it has", code="no-samples")
        total = sum(samples[client] for client in contributors)
        self._rules.check({client: samples[client] / total for client in contributors}, contributors)

    def _derive(self, *purpose: str) -> bytes:
        return hmac.digest(self._ledger.root, "\x00".join(purpose).encode(), "sha256")


def _verifies(
    encrypted: Ints, values: Ints, aggregate: Aggregate, given: Sequence[Tag], round_: Round, *, seed: bytes
) -> bool:
    """Whether these are the sums that the tags are for; how long that takes depends on the masks alone.

    Where the aggregator multiplies, it also adds plain values into the ciphertexts. No parameter is then in both parts
    of the aggregate, nothing can be moved between them, and the check sum over everything is enough.
    """
    small, offset = taggable(encrypted) & taggable(values), aggregate.tag_offset
    part = mac_tag(encrypted, seed) if aggregate.mask.blocks else 0
    all_encrypted = bool(aggregate.common.flags.all()) and all(each.blinding is None for each in given)
    whole = part if all_encrypted else mac_tag(values, seed)  # there is no rest: both are of the same values
    found = ((part + offset.encrypted) % PRIME, (whole + offset.whole) % PRIME)
    tags = [(round_.factor(each.client) * each.encrypted, round_.factor(each.client) * each.value) for each in given]
    expected = (sum(part for part, _ in tags) % PRIME, sum(whole for _, whole in tags) % PRIME)
    return small & (found[1] == expected[1]) & (round_.factors is not None or found[0] == expected[0])


class SharedKeyClients(KeyServer):
    """Clients that share one key pair."""

    def __init__(self, secret: DecryptionKey) -> None:
        """All seeds come from the operating system and are shared like the key."""
        name = secret.public.profile.name
        if secret.public.profile.forgeries_show_key:
            problem = f"is of {name}, of which a forged sum shows the secret part, and nobody verifies sums here"
            raise InvalidInput("secret", problem, "use a paillier profile, or a key server")
        super().__init__(secret, rules=ReleaseRules(min_contributors=1))

    @property
    def secret(self) -> DecryptionKey:
        """The key, which clients hold in this mode."""
        return self._secret

    def take_tag(self, data: bytes, round_: Round, *, sender: int) -> None:
        """Tags are for a key server: there is none."""

    def tagged(self, round_: Round) -> list[int]:
        """All members: nobody signs."""
        return sorted(round_.weights)

    def release(
        self,
        data: bytes,
        round_: Round,
        *,
        workers: int = 1,
        samples: Mapping[int, float] | None = None,  # noqa: ARG002 (nobody checks anything here)
    ) -> ReleasedSum:
        """What any client does with the aggregate."""
        aggregate = Aggregate.from_bytes(data, round_)
        order = self.order(round_.run, round_.cluster) if round_.purpose == "model" else None
        _, values, sound, cost = decrypt_aggregate(aggregate, round_, self._secret, order, workers=workers)
        if not sound:
            raise Rejected("the aggregate does not decrypt", code="does-not-decrypt")
        return ReleasedSum(values, round_.divisor(aggregate.contributors), aggregate.contributors, cost)
