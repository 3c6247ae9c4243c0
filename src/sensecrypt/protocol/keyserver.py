"""The key server (the paper's DKMS): holds the secret key and decrypts only verified sums, each once.

It also stores what clients share and the aggregator must not know: the tag seeds, and each cluster's order of the
parameters. It rotates sketches. It does not know their seed, which clients receive from the aggregator, and the
aggregator does not know the rotation. A `Ledger` stores its state.
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
    """Decrypt the encrypted sums, remove the blinding from the plain sums, add both, and undo the order.

    Returns:
        The sums of encrypted values, 0 for parameters without any; the sums of all values; whether the ciphertexts
        contained packed numbers; and the cost of decryption. If they did not, ones replace the numbers, so that a
        failing sum takes as long as a valid one.

    Args:
        aggregate: the sum.
        round_: its round.
        secret: the key.
        order: slot s holds parameter order[s]; None: the natural order.
        blindings: the blindings of the contributors that blind.
        workers: the largest number of processes.
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
"""The only reason given for a failing sum: details would reveal information about ciphertexts."""
MOST_FAILURES = 12
"""Sums of a run that may fail if forged ciphertexts reveal the key: each reveals one bit of it (decision 19)."""
_RULES = ReleaseRules()


class KeyServer:
    """Decrypts once per (run, round, cluster, purpose), and only verified sums that meet the release rules.

    A service limits how often sums may fail, see `keyservice.http`. If forged ciphertexts reveal the key, this class
    refuses all sums of a run after `MOST_FAILURES` failures.
    """

    def __init__(
        self, secret: DecryptionKey, *, rules: ReleaseRules = _RULES, ledger: Ledger | None = None, statistics: int = 0
    ) -> None:
        """Create a key server for one key pair.

        Args:
            secret: the key.
            rules: the release rules.
            ledger: stores the state; None: in memory, with seeds from the operating system.
            statistics: number of values at the end of an update that are statistics; the bound on updates does not
                apply to them.
        """
        self._secret, self._statistics = secret, statistics
        self._rules = rules
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._failed = 0

    @property
    def public(self) -> EncryptionKey:
        """The public key."""
        return self._secret.public

    def rotate_sketch(self, run: str, row: checks.FloatVector) -> checks.FloatVector:
        """Return a client's sketch, rotated by the key server's secret rotation, for the aggregator."""
        return rotate(row, seed=self._derive("turn", run))

    def tag_seed(self, round_: Round) -> bytes:
        """Return the clients' shared seed of one round's tags."""
        return self._derive("tag", *map(str, round_.header.values()))

    def order(self, run: str, cluster: int) -> checks.IntVector | None:
        """Return the cluster's importance order: slot s holds parameter order[s]; None if there is none yet."""
        ranking = self._ledger.ranking(run, cluster)
        return None if ranking is None else ranking.order

    def take_tag(self, data: bytes, round_: Round, *, sender: int) -> None:
        """Store one client's tag; raise `Rejected` for a second tag of the same client."""
        message = Tag.from_bytes(data, round_)
        if message.client != sender or sender not in round_.weights:
            raise Rejected(f"client {sender} sent a tag that is not its own", code="not-a-member")
        if not self._ledger.keep_tag(round_, message):
            raise Rejected(f"client {sender} has sent a tag already", code="doubled-tag")

    def check_contributors(self, contributors: tuple[int, ...], round_: Round) -> None:
        """Raise `Rejected` unless a sum of these clients may be released; decrypt nothing."""
        self._check_contributors(contributors, self._ledger.tags(round_), round_)

    def release(
        self, data: bytes, round_: Round, *, workers: int = 1, samples: Mapping[int, float] | None = None
    ) -> ReleasedSum:
        """Check an aggregate, decrypt it, verify the sum and return it.

        Args:
            data: the aggregate.
            round_: its round.
            workers: the largest number of processes that decrypt.
            samples: the number of samples of every contributor, in rounds with equal weights in which clients weight
                their own uploads.
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
        # Sensitivities are non-negative, and some are positive. Otherwise a client deviates: it is found like a client
        # whose tags do not match, and the cluster keeps its order.
        ranks = round_.purpose != "sensitivity" or bool((values.min() >= 0) & (values.max() > 0))
        if not (verified and ranks and bounded):
            self._failed += 1
            raise Rejected(MISMATCH, code="tags-mismatch")
        self._ledger.keep_released(round_, released)
        return released

    def restore_order(self, run: str, cluster: int, order: checks.IntVector, gains: checks.FloatVector) -> None:
        """Store an order from before a restart, and its block sensitivities."""
        checked, gains = checks.permutation("order", order, order.size), checks.sensitivity_vector("gains", gains)
        self._ledger.keep_ranking(run, cluster, ImportanceOrder(checked, gains))

    def tagged(self, round_: Round) -> list[int]:
        """Return the clients whose tags have arrived."""
        return sorted(self._ledger.tags(round_))

    def set_order(
        self, round_: Round, sums: ReleasedSum, *, first: npt.NDArray[np.bool_] | None = None
    ) -> checks.IntVector:
        """Store and return the cluster's new order: the parameters `first`, then by descending mean sensitivity."""
        ranking = self.ranking_from(round_, sums, first=first)
        self.keep_ranking(round_, ranking)
        return ranking.order

    def keep_ranking(self, round_: Round, ranking: ImportanceOrder) -> None:
        """Store the importance order of the round's cluster."""
        self._ledger.keep_ranking(round_.run, round_.cluster, ranking)

    def ranking_from(
        self, round_: Round, sums: ReleasedSum, *, first: npt.NDArray[np.bool_] | None = None
    ) -> ImportanceOrder:
        """Return the order by these sums, without storing it."""
        gains = np.maximum(sums.values, 0).astype(np.float64)
        order, _ = descending_order(gains)
        if first is not None:
            order = np.concatenate([order[first[order]], order[~first[order]]])
        return ImportanceOrder(order, np.add.reduceat(gains[order], np.arange(0, round_.size, round_.block)))

    def _check_contributors(self, contributors: tuple[int, ...], tags: Container[int], round_: Round) -> None:
        if len(set(contributors)) != len(contributors):
            raise Rejected("a contributor is counted twice", code="doubled-contributor")
        if not set(contributors) <= round_.weights.keys():
            raise Rejected("a contributor is not a member of the cluster", code="not-a-member")
        self._rules.check(round_.weights, contributors)
        if self._rules.fixed_groups:
            weights = {client: round_.weights[client] for client in contributors}
            check_groups(weights, self._ledger.released(round_.run, round_.purpose), self._rules.min_contributors)
        if missing := [client for client in contributors if client not in tags]:
            raise Rejected(f"no tag of client {missing[0]}", code="no-tag")

    def _check_samples(self, contributors: tuple[int, ...], samples: Mapping[int, float]) -> None:
        """Raise `Rejected` if a client's number of samples dominates the sum."""
        if silent := [client for client in contributors if not samples.get(client, 0) > 0]:
            raise Rejected(f"client {silent[0]} has not reported its number of samples", code="no-samples")
        total = sum(samples[client] for client in contributors)
        self._rules.check({client: samples[client] / total for client in contributors}, contributors)

    def _derive(self, *purpose: str) -> bytes:
        return hmac.digest(self._ledger.root, "\x00".join(purpose).encode(), "sha256")


def _verifies(
    encrypted: Ints, values: Ints, aggregate: Aggregate, given: Sequence[Tag], round_: Round, *, seed: bytes
) -> bool:
    """Return whether the tags match these sums; the time depends only on the masks.

    If the aggregator multiplies, it also adds plain values to the ciphertexts. Then no parameter is in both parts of
    the aggregate, nothing can be moved between them, and the tag over all values is enough.
    """
    small, offset = taggable(encrypted) & taggable(values), aggregate.tag_offset
    part = mac_tag(encrypted, seed) if aggregate.mask.blocks else 0
    all_encrypted = bool(aggregate.common.flags.all()) and all(each.blinding is None for each in given)
    whole = part if all_encrypted else mac_tag(values, seed)  # without a rest, both tags are of the same values
    found = ((part + offset.encrypted) % PRIME, (whole + offset.whole) % PRIME)
    tags = [(round_.factor(each.client) * each.encrypted, round_.factor(each.client) * each.value) for each in given]
    expected = (sum(part for part, _ in tags) % PRIME, sum(whole for _, whole in tags) % PRIME)
    return small & (found[1] == expected[1]) & (round_.factors is not None or found[0] == expected[0])


class SharedKeyClients(KeyServer):
    """Clients that share one key pair and decrypt sums themselves (the paper's Algorithm 1).

    Sums are not verified, and a client that obtains another client's upload can decrypt it. Use this to reproduce the
    paper, not to protect clients from each other.
    """

    def __init__(self, secret: DecryptionKey) -> None:
        """Use this key pair; all seeds come from the operating system and are shared like the key."""
        name = secret.public.profile.name
        if secret.public.profile.forgeries_show_key:
            problem = f"is of {name}: a forged sum reveals its secret key, and clients verify no sums"
            raise InvalidInput("secret", problem, "use a paillier profile, or a key server")
        super().__init__(secret, rules=ReleaseRules(min_contributors=1))

    @property
    def secret(self) -> DecryptionKey:
        """The secret key, which clients hold in this mode."""
        return self._secret

    def take_tag(self, data: bytes, round_: Round, *, sender: int) -> None:
        """Ignore tags, which only a key server needs."""

    def tagged(self, round_: Round) -> list[int]:
        """Return all members, because there are no tags to wait for."""
        return sorted(round_.weights)

    def release(
        self,
        data: bytes,
        round_: Round,
        *,
        workers: int = 1,
        samples: Mapping[int, float] | None = None,  # noqa: ARG002 (nothing is verified here)
    ) -> ReleasedSum:
        """Decrypt an aggregate as a client does, without verifying it."""
        aggregate = Aggregate.from_bytes(data, round_)
        order = self.order(round_.run, round_.cluster) if round_.purpose == "model" else None
        _, values, sound, cost = decrypt_aggregate(aggregate, round_, self._secret, order, workers=workers)
        if not sound:
            raise Rejected("the aggregate does not decrypt", code="does-not-decrypt")
        return ReleasedSum(values, round_.divisor(aggregate.contributors), aggregate.contributors, cost)
