"""What each role may ask of the key service, whatever carries the request. Methods block; call them from any thread."""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any, TypeVar

from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.crypto import publicfile
from sensecrypt.errors import InvalidInput, Rejected, WorkerDied
from sensecrypt.keyservice.http.answers import Answers
from sensecrypt.keyservice.http.appruns import AppRuns, check_app_run, check_equal
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.http.ledger import DatabaseLedger
from sensecrypt.keyservice.http.limits import Buckets, Line, Repeated
from sensecrypt.keyservice.http.metrics import Metrics
from sensecrypt.keyservice.http.policy import Policy
from sensecrypt.keyservice.http.problems import from_rejected, refused
from sensecrypt.keyservice.http.registry import Registry, Run, check_policy, check_run, check_weights, facts_of
from sensecrypt.keyservice.http.releases import Releases
from sensecrypt.keyservice.http.store import Store
from sensecrypt.keyservice.http.vaultkey import VaultKey, VaultProcess, destroy_key, generate_key
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.answers import (
    Acknowledgement,
    RoundTask,
    read_released,
    read_sketch,
    serialize_sketch,
)
from sensecrypt.protocol.keyserver import MISMATCH, KeyServer
from sensecrypt.protocol.messages import Aggregate, Tag
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round, RoundAddress, address_of, read_round

T = TypeVar("T")
_HEADER_BYTES = 1 << 17  # of a message, and whatever else is short in it
_TICK = 0.25  # seconds
_BURST_MINUTES = 10  # as many rounds and sums as so many minutes have, at once
_KEPT_MODELS = 8  # in memory, for members who ask at the same time


class KeyService:
    """The key server with its state, its vault and its limits."""

    def __init__(
        self, folder: Folder, root: bytes, store: Store, vault: VaultProcess, policy: Policy, *, workers: int
    ) -> None:
        """A service over an open store and a running vault; `workers` processes decrypt."""
        self.store, self.policy, self.metrics = store, policy, Metrics()
        self._folder, self._root, self._vault, self._workers = folder, root, vault, workers
        self._registry, self._apps = Registry(store), AppRuns(store)
        self._releases = Releases(store, policy.failures_per_round, policy.failures_per_run)
        self._line = Line(policy.releases_at_once)
        self._turns = Buckets(rate=policy.rounds_per_minute / 60, burst=_BURST_MINUTES * policy.rounds_per_minute)
        self._decryptions = Buckets(rate=policy.decryptions_per_minute / 60, burst=policy.decryptions_per_minute)
        self._registering, self._keeping = threading.Lock(), threading.Lock()
        self._release: dict[tuple[str, int, str], threading.Lock] = {}
        self._models: dict[RoundAddress, bytes] = {}
        self.answers = Answers(policy.answer_megabytes * 1_000_000)
        self._handed = Repeated(per_minute=policy.lines_per_minute)
        self._keys: dict[str, VaultKey] = {}
        for name in self._registry.ended:  # a crash may have come in between
            destroy_key(vault, folder.key(name))

    # What an admin asks for.

    def register_run(self, run: Run, who: Identity) -> dict[str, Any]:
        """Make a key pair for a run and keep who its members are; the same again changes nothing."""
        check_app_run(run, who, self.policy)
        check_policy(run, self.policy)
        with self._registering:
            known = self._registry.find_run(run.run)
            if known is None:
                self._add_run(run, who)
            elif known != run:
                raise refused("conflict", "a run of that name is registered, and differs")
        return self.run(run.run, who)

    def end_run(self, name: str, who: Identity) -> None:
        """Destroy a run's secret key; the same again changes nothing."""
        self._registry.run(name)
        self._registry.end_run(name, who)
        try:
            destroy_key(self._vault, self._folder.key(name))
        except WorkerDied as error:
            raise refused("decryption-failed", str(error)) from None

    # What everybody asks for.

    def run(self, name: str, who: Identity) -> dict[str, Any]:
        """What is public about a run, the asking client's own number, and for the aggregator who has which."""
        run = self._authorised(name, who)
        told = {"run": name, "size": run.size, "profile": run.profile, **asdict(self._rules(run)), "server": run.server}
        client = None
        if who.role == "client":
            client = self._apps.client(name, who.name) if run.release_to_aggregator else self._client(run, who)
        fingerprint = self._key(name).public.fingerprint
        names = samples = None
        if who.role == "aggregator":
            members = self._apps.names(name) if run.release_to_aggregator else run.members
            names = {str(number): member for number, member in members.items()}
            samples = {str(number): count for number, count in self._registry.samples(name).items()}
        more: dict[str, Any] = {"members": len(run.members), "release_to_aggregator": run.release_to_aggregator}
        more |= {"aggregators": run.aggregators, "ended": name in self._registry.ended}
        return {**told, **more, "fingerprint": fingerprint, "client": client, "names": names, "samples": samples}

    def public_key(self, name: str, who: Identity) -> dict[str, Any]:
        """The run's public key, as key files have it."""
        self.run(name, who)
        key = self._key(name).public
        return {"format": publicfile.PUBLIC_FORMAT, "version": publicfile.VERSION, **publicfile.public_fields(key)}

    # What the aggregator asks for.

    def register_round(self, data: bytes, place: RoundAddress, who: Identity) -> None:
        """Keep a round's members, with the weights that follow from their samples; the same again changes nothing."""
        run = self._authorised(place.run, who)
        self._take_turn(who)
        round_ = _checked(read_round, data)
        if address_of(round_) != place:
            raise refused("rejected", "the message describes another round than its address")
        check_run(round_, run)
        try:
            self._rules(run).check(round_.weights, round_.weights.keys())
        except Rejected as error:
            raise from_rejected(error) from None
        if run.release_to_aggregator:
            check_equal(round_)
        else:
            check_weights(round_, self._registry.samples(place.run), self._rules(run))
        lock = self._lock(place)
        if not lock.acquire(blocking=False):  # a new attempt erases the seeds that a release reads; no thread waits
            raise refused("busy", "a sum of this cluster is being decrypted")
        try:
            self._registry.add_round(round_, who)
        finally:
            lock.release()

    def tags(self, place: RoundAddress, who: Identity) -> list[int]:
        """Whose tags have arrived."""
        self._authorised(place.run, who)
        return self._ledger(who).tagged(self._registry.round(place))

    def aggregate_limit(self, place: RoundAddress, who: Identity) -> int:
        """How long an aggregate of that run can be: every block encrypted and every value plain, and a header."""
        run = self._authorised(place.run, who)
        profile = get_profile(run.profile)
        return run.blocks * (profile.ciphertext_bytes + 1) + run.size * profile.slot_bits // 8 + _HEADER_BYTES

    def tag_limit(self, place: RoundAddress) -> int:
        """How long a tag of that run can be: a mask, and a header."""
        return self._registry.run(place.run).blocks // 8 + _HEADER_BYTES

    @contextlib.contextmanager
    def place_in_line(self, who: Identity) -> Iterator[None]:
        """Held by whoever submits a sum, from before its body is read: so few bodies are in memory at once."""
        with self._line.held(who.name):
            self.metrics.count("releases_waiting")
            try:
                yield
            finally:
                self.metrics.count("releases_waiting", -1)

    def decrypt_aggregate(self, data: bytes, place: RoundAddress, who: Identity) -> bytes:
        """Decrypt and verify a sum, once; the same again is told what came out, and nothing is decrypted."""
        run, round_ = self._authorised(place.run, who), self._registry.round(place)
        self._take_turn(who)
        aggregate = _checked(lambda message: Aggregate.from_bytes(message, round_), data)
        digest, contributors = aggregate.digest(), aggregate.contributors
        with self._lock(place):
            known = self._releases.claim(place, digest, who)
            if known is None:
                known = self._decrypt(data, contributors, round_, run, who)
            if place.purpose == "sensitivity":
                self._make_order(round_, run, who)
        if run.run not in self._registry.ended and self._registry.is_over(run):
            self.end_run(run.run, who)
        return known.to_bytes()

    def released_sum(self, place: RoundAddress, who: Identity) -> bytes:
        """A round's released sum, in a run whose members agreed that its aggregator has it."""
        run = self._authorised(place.run, who)
        if not run.release_to_aggregator:
            raise refused("not-the-aggregator", f"sums of run {run.run} are for its members")
        result = self._ledger(who).result(place)
        if result is None:
            raise refused("not-released", "this round has no released sum")
        self._note_handed("sum", who, place)
        return result

    # What a client asks for.

    def join(self, name: str, client: int, who: Identity) -> None:
        """Make a client a member of a run that an app registered."""
        run = self._registry.run(name)
        if not run.release_to_aggregator:
            raise refused("not-a-member", f"members of run {name} were named when it was registered")
        self._apps.join(name, client, who, most=self.policy.max_members)

    def keep_samples(self, name: str, samples: int, who: Identity) -> None:
        """How many samples a client has, which its weight follows from: the first that it tells counts."""
        run = self._registry.run(name)
        self._registry.keep_samples(name, self._client(run, who), samples, who)

    def rotate_sketch(self, name: str, data: bytes, who: Identity) -> bytes:
        """A client's sketch, turned; the first that it sent, whatever it sends later: more would tell the rotation."""
        run = self._registry.run(name)
        client = self._client(run, who)
        if name in self._registry.ended:
            raise refused("run-ended", f"run {name} has ended")
        row = self._ledger(who).keep_sketch(name, client, _checked(read_sketch, data))
        return serialize_sketch(self._server(run, who).turn(name, row))

    def task(self, place: RoundAddress, who: Identity, *, start: str | None = None) -> bytes:
        """A round as it was registered, and what its members share: the seed of tags, and the order.

        Args:
            place: of the round.
            who: asks.
            start: the hash of what the client was given to start from, in a run that an app registered.
        """
        run, round_ = self._own(place, who)
        if run.release_to_aggregator:
            self._apps.require_start(place, start, who)
        ranking = self._ledger(who).ranking_of(round_) if place.purpose == "model" else None
        after = self._registry.find_round(replace(place, number=place.number + 1, purpose="sensitivity"))
        if place.purpose != "model" or after is None or self._client(run, who) not in after.weights:
            after = None
        self._note_handed("tag-seed", who, place)
        if ranking is not None:
            self._note_handed("order", who, place)
        seed = self._server(run, who).tag_seed
        return RoundTask(round_, seed(round_), ranking, after, seed(after) if after is not None else b"").to_bytes()

    def take_tag(self, data: bytes, place: RoundAddress, who: Identity) -> None:
        """Keep a client's tag; the same again changes nothing."""
        run, round_ = self._own(place, who)
        client = self._client(run, who)
        try:
            self._server(run, who).take_tag(data, round_, sender=client)
        except Rejected as error:
            if error.code != "doubled-tag" or not self._is_known(Tag.from_bytes(data, round_), round_, who):
                raise from_rejected(error) from None
            return
        self.metrics.count("tags")

    def model_bytes(self, place: RoundAddress, who: Identity) -> int:
        """How long the answer with a member's model is, at most."""
        run = self._starter(place, who)
        return run.size * get_profile(run.profile).slot_bits // 8 + _HEADER_BYTES

    def model(self, place: RoundAddress, who: Identity) -> bytes:
        """The released sum of a member's own cluster."""
        self._starter(place, who)
        with self._keeping:  # one at a time: many who ask at once get one copy
            result = self._models.get(place)
            if result is None:
                result = self._ledger(who).result(place) if place.purpose == "model" else None
                if result is None:
                    raise refused("not-released", "this round has no released model")
                while len(self._models) >= _KEPT_MODELS:
                    self._models.pop(next(iter(self._models)))
                self._models[place] = result
        self._note_handed("model", who, place)
        self.metrics.count("models_handed_out")
        return result

    # How it is done.

    def _lock(self, place: RoundAddress) -> threading.Lock:
        """Held while a sum of a cluster is decrypted, and while one of its rounds is registered.

        Sums of fixed groups are checked against each other: one of a run at a time.
        """
        cluster = -1 if self.policy.groups == "fixed" else place.cluster
        return self._release.setdefault((place.run, cluster, place.purpose), threading.Lock())

    def _add_run(self, run: Run, who: Identity) -> None:
        path = self._folder.key(run.run)
        if path.exists():  # of a registration that a crash interrupted, or that a restored database does not know
            path.replace(path.with_name(f"{path.name}.unused-{secrets.token_hex(4)}"))
        try:
            public = generate_key(self._vault, path, run.profile)
        except WorkerDied as error:
            raise refused("decryption-failed", str(error)) from None
        self._registry.add_run(run, public.fingerprint, who)

    def _take_turn(self, who: Identity) -> None:
        """Rounds and sums are written down, and sums keep others waiting: so many per aggregator."""
        if not self._turns.take(who.name):
            reason = f"{who.name} registers and submits more than {self.policy.rounds_per_minute} times a minute"
            raise refused("rate-limited", reason)

    def _decrypt(
        self, data: bytes, contributors: tuple[int, ...], round_: Round, run: Run, who: Identity
    ) -> Acknowledgement:
        place, server = address_of(round_), self._server(run, who)
        try:
            server.check_contributors(contributors, round_)
        except Rejected as error:  # nothing is decrypted for it, and nobody kept waiting
            self._releases.release(place, failed=False)
            raise from_rejected(error) from None
        if not self._decryptions.take("all"):
            self._releases.release(place, failed=False)
            raise refused("rate-limited", f"more than {self.policy.decryptions_per_minute} decryptions a minute")
        start = time.perf_counter()
        try:
            samples = self._registry.samples(run.run) if run.release_to_aggregator else None
            released = server.release(data, round_, workers=self._workers, samples=samples)
        except Rejected as error:
            self._releases.release(place, failed=error.code == "tags-mismatch")
            _wait_for_tick(start)
            raise from_rejected(error) from None
        except InvalidInput:
            self._releases.release(place, failed=True)
            _wait_for_tick(start)
            raise refused("tags-mismatch", MISMATCH) from None
        except WorkerDied as error:
            raise refused("decryption-failed", str(error)) from None
        self.metrics.count("decryptions")
        self.metrics.count("decryption_seconds", time.perf_counter() - start)
        return Acknowledgement(released.contributors, released.weight)

    def _make_order(self, round_: Round, run: Run, who: Identity) -> None:
        """From the released sensitivities; also if a crash came between release and ordering."""
        result = self._ledger(who).result(address_of(round_))
        if result is not None:
            ledger = DatabaseLedger(self.store, self._root, who, number=round_.number)
            self._server(run, who, ledger).set_order(round_, read_released(result, round_), first=run.flags())

    def _authorised(self, name: str, who: Identity) -> Run:
        """The run of that name; an aggregator sees and touches those alone that were registered with its name."""
        run = self._registry.run(name)
        if who.role == "aggregator" and who.name not in run.aggregators:
            raise refused("not-the-aggregator", f"{who.name} is not the aggregator of run {name}")
        return run

    def _own(self, place: RoundAddress, who: Identity) -> tuple[Run, Round]:
        """The round there, if it is the asking client's own."""
        run, round_ = self._registry.run(place.run), self._registry.round(place)
        self._member(run, round_, who)
        return run, round_

    def _starter(self, place: RoundAddress, who: Identity) -> Run:
        """The run of a round that is the asking client's own, or whose model its present round starts from.

        Where only some members of a cluster take part in a round, others start the next one from its model. Models of
        earlier rounds are for those who were in them.
        """
        run, round_ = self._registry.run(place.run), self._registry.round(place)
        if run.release_to_aggregator:
            raise refused("not-released", f"models of run {run.run} come from its aggregator")
        if self._client(run, who) not in round_.weights:
            latest = self._registry.latest_round(place.run, place.cluster)
            self._member(run, latest if latest.number == place.number + 1 else round_, who)
        return run

    def _member(self, run: Run, round_: Round | None, who: Identity) -> None:
        client = self._client(run, who)
        if round_ is not None and client not in round_.weights:
            raise refused("not-a-member", f"client {client} is no member of cluster {round_.cluster} in this round")

    def _client(self, run: Run, who: Identity) -> int:
        client = self._apps.client(run.run, who.name) if run.release_to_aggregator else run.client(who.name)
        if client is None:
            raise refused("not-a-member", f"{who.name} is not registered with run {run.run}")
        return client

    def _ledger(self, who: Identity) -> DatabaseLedger:
        return DatabaseLedger(self.store, self._root, who)

    def _server(self, run: Run, who: Identity, ledger: DatabaseLedger | None = None) -> KeyServer:
        key, server = self._key(run.run), ServerRule(**run.server)
        rule = None if run.release_to_aggregator else server
        ledger = ledger or DatabaseLedger(self.store, self._root, who, rule=rule)
        return KeyServer(key, rules=self._rules(run), ledger=ledger, statistics=server.statistics)

    def _rules(self, run: Run) -> ReleaseRules:
        limits = self.policy
        weights = (limits.largest_weight, limits.largest_ratio, limits.colluders)
        return ReleaseRules(run.min_contributors, run.quorum, *weights, fixed_groups=limits.groups == "fixed")

    def _key(self, name: str) -> VaultKey:
        """The run's key; it never changes, so that its file is read once."""
        if name not in self._keys:
            self._keys[name] = VaultKey(self._vault, self._folder.key(name), constant_time=self.policy.constant_time)
        return self._keys[name]

    def _is_known(self, tag: Tag, round_: Round, who: Identity) -> bool:
        """Whether it is the tag that was taken; after the release, as far as that is remembered."""
        ledger = self._ledger(who)
        known = replace(tag, blinding=None) if ledger.was_released(round_) else tag
        return ledger.tags(round_).get(tag.client) == known

    def _note_handed(self, what: str, who: Identity, place: RoundAddress) -> None:
        """The first time always; of the same again so many lines per minute."""
        skipped = self._handed.passes(f"{who.role} {who.name}", f"{what} {who.role} {who.name} {place}")
        if skipped is not None:
            facts = {"event": "handed-out", "what": what, "role": who.role, "name": who.name, **facts_of(place)}
            self.store.note({**facts, **({"and_more_before": skipped} if skipped else {})})


def _wait_for_tick(start: float) -> None:
    """Sums that fail are told so 1, 2, 4, 8 … ticks after they came: the time would tell what they decrypt to."""
    elapsed = time.perf_counter() - start
    time.sleep(_TICK * 2 ** max(0, math.ceil(math.log2(elapsed / _TICK))) - elapsed)


def _checked(read: Callable[[bytes], T], data: bytes) -> T:
    try:
        return read(data)
    except Rejected as error:
        raise from_rejected(error) from None
