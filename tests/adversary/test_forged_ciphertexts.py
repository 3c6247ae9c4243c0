"""Decryptions of forged ring ciphertexts are the secret key: nobody sees one, and every refusal is the same bit.

An aggregator forges a sum; a member, who knows the seed of the tags, forges its own upload and tags what it guesses
that the upload decrypts to. What is left to both is whether a sum was released. Decision 19 bounds what that tells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sensecrypt import Mask
from sensecrypt.crypto.ring.public import HEADER_BYTES, NOISE_BOUND, SHIFT
from sensecrypt.errors import InvalidInput, Refused, Rejected
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.policy import Policy
from sensecrypt.keyservice.http.runs import Run, check_run
from sensecrypt.keyservice.in_process import InProcessKeyService
from sensecrypt.protocol import keyserver
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import MISMATCH, MOST_FAILURES, KeyServer, SharedKeyClients
from sensecrypt.protocol.messages import Aggregate, Tag, Upload
from sensecrypt.protocol.protection import ProtectedUpdate, protect_model
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import PRIME, TagOffset, mac_tag
from tests.crypto.conftest import keypair
from tests.keyservice.rounds import Played

CLIENTS = 3
ADMIN = Identity("admin", "admin")
PUBLIC, SECRET = keypair("ring-2048")
SIZE = 2 * PUBLIC.slots
EVERYTHING = Mask.prefix(2, size=SIZE, block=PUBLIC.slots)
S = np.frombuffer(SECRET.secret_bytes(), dtype=np.int8).astype(np.int64)  # as coefficients of X^0, X^1, …
IN_SLOTS = slice(0, PUBLIC.slots)


class Fleet:
    """Three clients that encrypt everything with the ring scheme, and their key server."""

    def __init__(self, *, number: int = 0, server: KeyServer | None = None) -> None:
        weights = dict.fromkeys(range(CLIENTS), 1 / CLIENTS)
        self.round = Round("test", number, 0, "model", SIZE, PUBLIC.profile, weights)
        self.server = server or KeyServer(SECRET)
        self.seed = self.server.tag_seed(self.round)

    def honest(self, client: int) -> ProtectedUpdate:
        update = np.random.default_rng(client).normal(0, 0.1, SIZE)
        arguments = {"client": client, "key": PUBLIC, "seed": self.seed, "blinded": True}
        return protect_model(update, EVERYTHING, self.round, **arguments)

    def forged(self, client: int, ciphertexts: np.ndarray, claimed: np.ndarray) -> ProtectedUpdate:
        """A member's upload of these ciphertexts, with the tags of the values that it claims."""
        upload = Upload(client, EVERYTHING, ciphertexts, np.empty(0, dtype=np.int64), TagOffset())
        tag = mac_tag(claimed, self.seed) % PRIME
        made = self.honest(client)
        return replace(made, upload=upload.to_bytes(self.round), tag=Tag(client, tag, tag, None).to_bytes(self.round))

    def collect(self, forgery: ProtectedUpdate | None = None) -> Aggregate:
        total = RoundSum(self.round, PUBLIC)
        for client in range(CLIENTS):
            made = self.honest(client) if forgery is None or client else forgery
            total.add(made.upload, sender=client)
            self.server.take_tag(made.tag, self.round, sender=client)
        return total.close()

    def release(self, aggregate: Aggregate) -> np.ndarray:
        return self.server.release(aggregate.to_bytes(self.round), self.round).values


def row(*polynomials: np.ndarray) -> np.ndarray:
    """Rows of two equal ciphertexts that nobody encrypted."""
    words = np.zeros((1, 2, PUBLIC.dimension), dtype=np.int64)
    for index, polynomial in enumerate(polynomials):
        words[0, index] = polynomial
    made = PUBLIC.empty(1)
    PUBLIC.write(words, made)
    return np.repeat(made, 2, axis=0)


def monomial(amount: int) -> np.ndarray:
    polynomial = np.zeros(PUBLIC.dimension, dtype=np.int64)
    polynomial[0] = amount
    return polynomial


KEY_ITSELF = row(monomial(1 << SHIFT))  # Δ·s is what decryption sees
NEAR_THE_BOUND = NOISE_BOUND - (1 << (SHIFT - 5))


def test_a_forged_sum_would_show_the_key_and_is_not_released():
    """Without the tags' check, this aggregator had the secret key after one round."""
    fleet = Fleet()
    aggregate = replace(fleet.collect(), ciphertexts=KEY_ITSELF)
    assert np.array_equal(SECRET.decrypt(KEY_ITSELF, SIZE)[IN_SLOTS], S)
    with pytest.raises(Rejected) as refusal:
        fleet.release(aggregate)
    assert (refusal.value.code, str(refusal.value)) == ("tags-mismatch", MISMATCH)
    with pytest.raises(Rejected, match="does not match"):  # nor by asking again
        fleet.release(aggregate)


def test_a_member_learns_of_its_forged_upload_only_whether_its_guess_of_the_whole_was_right():
    for claimed, released in ((S, True), (np.zeros_like(S), False), (np.where(S == 1, 1, 0), False)):
        fleet = Fleet()
        forgery = fleet.forged(0, KEY_ITSELF, np.concatenate([claimed, claimed]))
        aggregate = fleet.collect(forgery)
        if released:
            fleet.release(aggregate)
            continue
        with pytest.raises(Rejected) as refusal:
            fleet.release(aggregate)
        assert (refusal.value.code, str(refusal.value)) == ("tags-mismatch", MISMATCH)


def test_forged_noise_just_beyond_the_limit_and_just_below_it_is_one_bit_of_the_key_and_no_more(monkeypatch):
    """The reaction attack: noise that leaves its bound where one coefficient of the key is 1; values match the tags."""
    work: list[tuple[str, int]] = []
    decrypt, tag = type(SECRET).decrypt, mac_tag

    def counted(self, ciphertexts, count, **more):
        work.append(("decrypt", len(ciphertexts)))
        return decrypt(self, ciphertexts, count, **more)

    monkeypatch.setattr(type(SECRET), "decrypt", counted)

    def counted_tag(values, seed):
        work.append(("tag", values.size))
        return tag(values, seed)

    monkeypatch.setattr(keyserver, "mac_tag", counted_tag)
    done = {}
    for name, asked in (("below", int(np.flatnonzero(S != 1)[0])), ("beyond", int(np.flatnonzero(S == 1)[0]))):
        noise = np.zeros(PUBLIC.dimension, dtype=np.int64)
        noise[asked] = NEAR_THE_BOUND
        fleet = Fleet()
        forgery = fleet.forged(0, row(monomial(1 << (SHIFT - 4)), noise), np.zeros(SIZE, np.int64))
        aggregate = fleet.collect(forgery)
        work.clear()
        try:
            fleet.release(aggregate)
            done[name] = ("released", list(work))
        except Rejected as refusal:
            done[name] = ((refusal.code, str(refusal), refusal.args), list(work))
    fleet = Fleet()
    unmatched = replace(fleet.collect(), tag_offset=TagOffset(1, 1))
    work.clear()
    with pytest.raises(Rejected) as mismatch:
        fleet.release(unmatched)
    assert done["below"][0] == "released"
    assert done["beyond"][0] == (mismatch.value.code, str(mismatch.value), mismatch.value.args)
    assert done["below"][1] == done["beyond"][1] == work


def test_a_service_in_the_coordinators_process_answers_as_few_questions_as_one_elsewhere():
    server = KeyServer(SECRET, rules=ReleaseRules(2))
    service = InProcessKeyService(
        server, PUBLIC, clients=CLIENTS, rules=ReleaseRules(2), first=None, slot_order=False, workers=1
    )
    codes = []
    for number in range(MOST_FAILURES + 1):
        fleet = Fleet(number=number, server=server)
        aggregate = fleet.collect()
        if number < MOST_FAILURES:
            garbage = aggregate.ciphertexts.copy()
            garbage[:, HEADER_BYTES:] ^= 0xFF if number % 2 else 0x55
            aggregate = replace(aggregate, ciphertexts=garbage)
        with pytest.raises(Rejected) as refusal:
            service.release(aggregate.to_bytes(fleet.round), fleet.round)
        codes.append(refusal.value.code)
    assert codes == ["tags-mismatch"] * MOST_FAILURES + ["run-closed"]


def test_clients_that_share_a_key_share_none_that_forged_sums_show():
    with pytest.raises(InvalidInput, match="clients verify no sums"):
        SharedKeyClients(SECRET)
    SharedKeyClients(keypair("insecure-test")[1])


def test_the_key_service_counts_noise_as_it_counts_any_failure(server):
    played = Played(server, profile="ring-2048", size=SIZE)
    limit = Policy().failures_per_round
    for attempt in range(limit + 1):
        round_ = played.register(played.round(attempt=attempt))
        aggregate = played.upload(round_)
        noisy = aggregate.ciphertexts.copy()
        noisy[:, HEADER_BYTES:] ^= 0x55  # uniform values and noise: what is not encrypted under this key
        unmatched = replace(aggregate, plain=aggregate.plain + 1)
        wrong = unmatched if attempt % 2 else replace(aggregate, ciphertexts=noisy)
        with pytest.raises(Refused) as refusal:
            played.release(wrong if attempt < limit else aggregate, round_)
        assert refusal.value.code == ("tags-mismatch" if attempt < limit else "too-many-failures")
        if attempt < limit:
            assert refusal.value.reason == MISMATCH


def test_a_policy_that_lets_more_sums_fail_than_decision_19_counts_takes_no_such_run():
    with pytest.raises(Refused, match="more than 12 sums of a run fail"):
        check_run(_run("ring-2048"), ADMIN, Policy(failures_per_run=13))
    check_run(_run("ring-2048"), ADMIN, Policy())
    check_run(_run("paillier-2048"), ADMIN, Policy(failures_per_run=13))


def _run(profile):
    members = {str(client): f"phone-{client}" for client in range(CLIENTS)}
    return Run(run="a", size=SIZE, profile=profile, members=members, aggregators=["aggregator"])
