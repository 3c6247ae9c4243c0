"""The requests of each role to the key service, independent of HTTP. Methods block; call them from any thread.

A refused request raises `Refused`, or the protocol's `Rejected`.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.crypto import publicfile
from sensecrypt.errors import InvalidInput, Refused, Rejected
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.claims import Claims
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.http.ledger import DatabaseLedger
from sensecrypt.keyservice.http.limits import Buckets, Thinned, WaitingSums
from sensecrypt.keyservice.http.metrics import Metrics
from sensecrypt.keyservice.http.modelanswers import ModelAnswers
from sensecrypt.keyservice.http.policy import Policy
from sensecrypt.keyservice.http.problems import refused
from sensecrypt.keyservice.http.rounds import Rounds, check_round
from sensecrypt.keyservice.http.runs import Run, Runs, check_run
from sensecrypt.keyservice.http.store import Store
from sensecrypt.keyservice.http.vaultkey import VaultKey, VaultProcess, destroy_key, generate_key
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.answers import Acknowledgement, RoundTask, read_released, read_sketch, serialize_sketch
from sensecrypt.protocol.keyserver import MISMATCH, KeyServer
from sensecrypt.protocol.messages import Aggregate, Tag
from sensecrypt.protocol.releaserules import ReleaseRules
from sensecrypt.protocol.round import Round, RoundAddress, address_of, read_round

_HEADER_BYTES = 1 << 17  # of a message, and other short parts
_TICK = 0.25  # seconds
_BURST_MINUTES = 10  # rounds and sums of this many minutes may arrive at once
_KEPT_MODELS = 8  # in memory, for members that ask at the same time


class KeyService:
    """The key server with its state, its vault and its limits."""

    def __init__(
        self, folder: Folder, root: bytes, store: Store, vault: VaultProcess, policy: Policy, *, workers: int
    ) -> None:
        """A service over an open store and a running vault; `workers` processes decrypt."""
        self.store, self.policy, self.metrics = store, policy, Metrics()
        self._folder, self._root, self._vault, self._workers = folder, root, vault, workers
        self._runs, self._rounds = Runs(store), Rounds(store)
        self._claims = Claims(store, policy.failures_per_round, policy.failures_per_run)
        self._waiting = WaitingSums(policy.releases_at_once)
        per_minute = policy.rounds_per_minute
        self._registrations = Buckets(rate=per_minute / 60, burst=_BURST_MINUTES * per_minute)
        self._decryptions = Buckets(rate=policy.decryptions_per_minute / 60, burst=policy.decryptions_per_minute)
        self._registering, self._reading_model = threading.Lock(), threading.Lock()
        self._releasing: dict[tuple[str, int, str], threading.Lock] = {}
        self._models: dict[RoundAddress, bytes] = {}
        self._answers = ModelAnswers(policy.answer_megabytes * 1_000_000)
        self._fetches = Thinned(per_minute=policy.lines_per_minute)
        self._keys: dict[str, VaultKey] = {}
        for name in self._runs.ended:  # after a crash, the key of an ended run may still be there
            destroy_key(vault, folder.key(name))

    # Requests of admins, and of aggregators that register runs of their own.

    def register_run(self, run: Run, who: Identity) -> dict[str, Any]:
        """Register a run and generate its key pair; repeating this changes nothing."""
        check_run(run, who, self.policy)
        with self._registering:
            known = self._runs.find(run.run)
            if known is None:
                path = self._folder.key(run.run)
                if path.exists():  # a crash interrupted its registration, or a restored database does not have it
                    path.replace(path.with_name(f"{path.name}.unused-{secrets.token_hex(4)}"))
                self._runs.add(run, generate_key(self._vault, path, run.profile).fingerprint, who)
            elif known != run:
                raise refused("conflict", "a run of that name is registered, and differs")
        return self.run(run.run, who)

    def end_run(self, name: str, who: Identity) -> None:
        """Destroy a run's secret key; repeating this changes nothing."""
        self._runs.get(name)
        self._runs.end(name, who)
        destroy_key(self._vault, self._folder.key(name))

    # Requests of all roles.

    def run(self, name: str, who: Identity) -> dict[str, Any]:
        """The public facts of a run; for a client also its number, for the aggregator all names and samples."""
        run = self._authorised(name, who)
        client = names = samples = None
        if who.role == "client":
            client = self._runs.number(run, who.name) if run.release_to_aggregator else self._number(run, who)
        if who.role == "aggregator":
            names = {str(number): member for number, member in self._runs.names(run).items()}
            samples = {str(number): count for number, count in self._runs.samples(name).items()}
        shown = {"run", "size", "profile", "server", "aggregators", "release_to_aggregator"}
        public = {**run.model_dump(include=shown), **asdict(self._rules(run)), "members": len(run.members)}
        public |= {"ended": name in self._runs.ended, "fingerprint": self._key(name).public.fingerprint}
        return {**public, "client": client, "names": names, "samples": samples}

    def public_key(self, name: str, who: Identity) -> dict[str, Any]:
        """The run's public key, in the format of key files."""
        self.run(name, who)
        key = self._key(name).public
        return {"format": publicfile.PUBLIC_FORMAT, "version": publicfile.VERSION, **publicfile.public_fields(key)}

    # Requests of aggregators.

    def register_round(self, data: bytes, place: RoundAddress, who: Identity) -> None:
        """Register a round with its members and their weights; repeating this changes nothing."""
        run = self._authorised(place.run, who)
        self._limit_registrations(who)
        round_ = read_round(data)
        if address_of(round_) != place:
            raise refused("rejected", "the message describes another round than its address")
        check_round(round_, run, self._runs.samples(place.run), self._rules(run))
        lock = self._lock(place)
        if not lock.acquire(blocking=False):  # a new attempt erases seeds that a release needs
            raise refused("busy", "a sum of this cluster is being decrypted")
        try:
            self._rounds.add(round_, who)
        finally:
            lock.release()

    def tags(self, place: RoundAddress, who: Identity) -> list[int]:
        """The clients whose tags have arrived."""
        self._authorised(place.run, who)
        return self._ledger(who).tagged(self._rounds.get(place))

    def aggregate_limit(self, place: RoundAddress, who: Identity) -> int:
        """The most bytes of an aggregate: every block encrypted and every value plain, and a header."""
        run = self._authorised(place.run, who)
        profile = get_profile(run.profile)
        return run.blocks * (profile.ciphertext_bytes + 1) + run.size * profile.slot_bits // 8 + _HEADER_BYTES

    @contextlib.contextmanager
    def waiting(self, who: Identity) -> Iterator[None]:
        """Hold one of few places while the body of a sum is read and decrypted, so that few are in memory at once."""
        with self._waiting.held(who.name):
            self.metrics.count("releases_waiting")
            try:
                yield
            finally:
                self.metrics.count("releases_waiting", -1)

    def release(self, data: bytes, place: RoundAddress, who: Identity) -> bytes:
        """Decrypt and verify a sum once; if it is sent again, the answer is repeated without decryption."""
        run, round_ = self._authorised(place.run, who), self._rounds.get(place)
        self._limit_registrations(who)
        aggregate = Aggregate.from_bytes(data, round_)
        with self._lock(place):
            known = self._claims.claim(place, aggregate.digest(), who)
            if known is None:
                known = self._decrypt(data, aggregate.contributors, round_, run, who)
            if place.purpose == "sensitivity":
                self._make_order(round_, run, who)
        if run.run not in self._runs.ended and self._runs.is_over(run):
            self.end_run(run.run, who)
        return known.to_bytes()

    def released_sum(self, place: RoundAddress, who: Identity) -> bytes:
        """A round's released sum, in a run whose members agreed that its aggregator receives it."""
        run = self._authorised(place.run, who)
        if not run.release_to_aggregator:
            raise refused("not-the-aggregator", f"sums of run {run.run} are for its members")
        result = self._ledger(who).result(place)
        if result is None:
            raise refused("not-released", "this round has no released sum")
        self._note_fetch("sum", who, place)
        return result

    # Requests of clients.

    def join(self, name: str, client: int, who: Identity) -> None:
        """Make a client a member of a run that an app registered."""
        if not self._runs.get(name).release_to_aggregator:
            raise refused("not-a-member", f"members of run {name} were named when it was registered")
        self._runs.join(name, client, who, most=self.policy.max_members)

    def keep_samples(self, name: str, samples: int, who: Identity) -> None:
        """Keep a client's number of samples, from which its weight follows; only its first report counts."""
        run = self._runs.get(name)
        self._runs.keep_samples(name, self._number(run, who), samples, who)

    def rotate_sketch(self, name: str, data: bytes, who: Identity) -> bytes:
        """A client's first sketch, rotated; later ones are ignored, as more sketches would reveal the rotation."""
        run = self._runs.get(name)
        client = self._number(run, who)
        if name in self._runs.ended:
            raise refused("run-ended", f"run {name} has ended")
        row = self._ledger(who).keep_sketch(name, client, read_sketch(data))
        return serialize_sketch(self._server(run, who).rotate_sketch(name, row))

    def task(self, place: RoundAddress, who: Identity, *, start: str | None = None) -> bytes:
        """A round as it was registered, and its members' common secrets: the seed of tags, and the importance order.

        In a run that an app registered, `start` is the hash of the model that the client received.
        """
        run, round_, client = self._own(place, who)
        if run.release_to_aggregator:
            self._rounds.require_start(place, start, who)
        self._note_fetch("tag-seed", who, place)
        seed = self._server(run, who).tag_seed
        if place.purpose != "model":
            return RoundTask(round_, seed(round_), None).to_bytes()
        ranking = self._ledger(who).ranking_of(round_)
        if ranking is not None:
            self._note_fetch("order", who, place)
        after = self._rounds.find(replace(place, number=place.number + 1, purpose="sensitivity"))
        if after is None or client not in after.weights:
            return RoundTask(round_, seed(round_), ranking).to_bytes()
        return RoundTask(round_, seed(round_), ranking, after, seed(after)).to_bytes()

    def tag_limit(self, place: RoundAddress) -> int:
        """The most bytes of a tag: a mask, and a header."""
        return self._runs.get(place.run).blocks // 8 + _HEADER_BYTES

    def take_tag(self, data: bytes, place: RoundAddress, who: Identity) -> None:
        """Keep a client's tag; repeating this changes nothing."""
        run, round_, client = self._own(place, who)
        try:
            self._server(run, who).take_tag(data, round_, sender=client)
        except Rejected as error:
            if error.code != "doubled-tag":
                raise
            tag, ledger = Tag.from_bytes(data, round_), self._ledger(who)
            if ledger.was_released(round_):  # then the blinding seed was erased
                tag = replace(tag, blinding=None)
            if ledger.tags(round_).get(tag.client) != tag:
                raise
        else:
            self.metrics.count("tags")

    def model(self, place: RoundAddress, who: Identity, sending: contextlib.ExitStack) -> bytes:
        """The released model of a member's own cluster; it counts as in memory until `sending` is closed."""
        run = self._starter(place, who)
        size = run.size * get_profile(run.profile).slot_bits // 8 + _HEADER_BYTES
        sending.enter_context(self._answers.held(place, size, str(who)))
        with self._reading_model:  # one at a time, so that simultaneous requests share one copy
            result = self._models.get(place)
            if result is None:
                result = self._ledger(who).result(place) if place.purpose == "model" else None
                if result is None:
                    raise refused("not-released", "this round has no released model")
                while len(self._models) >= _KEPT_MODELS:
                    self._models.pop(next(iter(self._models)))
                self._models[place] = result
        self._note_fetch("model", who, place)
        self.metrics.count("models_handed_out")
        return result

    def _lock(self, place: RoundAddress) -> threading.Lock:
        """Held while a sum of a cluster is decrypted, and while one of its rounds is registered.

        Sums of fixed groups are checked against each other, so one of a run is decrypted at a time.
        """
        cluster = -1 if self.policy.groups == "fixed" else place.cluster
        return self._releasing.setdefault((place.run, cluster, place.purpose), threading.Lock())

    def _limit_registrations(self, who: Identity) -> None:
        """Limit rounds and sums per aggregator, as each writes log lines and sums delay each other."""
        if not self._registrations.take(who.name):
            reason = f"{who.name} registers and submits more than {self.policy.rounds_per_minute} times a minute"
            raise refused("rate-limited", reason)

    def _decrypt(
        self, data: bytes, contributors: tuple[int, ...], round_: Round, run: Run, who: Identity
    ) -> Acknowledgement:
        """Decrypt a claimed sum; the claim of a refused one is given up."""
        place, server = address_of(round_), self._server(run, who)
        try:
            server.check_contributors(contributors, round_)
            if not self._decryptions.take("all"):
                raise refused("rate-limited", f"more than {self.policy.decryptions_per_minute} decryptions per minute")
        except (Rejected, Refused):  # before decryption: this is not counted as a failure
            self._claims.give_up(place, failed=False)
            raise
        start = time.perf_counter()
        try:
            samples = self._runs.samples(run.run) if run.release_to_aggregator else None
            released = server.release(data, round_, workers=self._workers, samples=samples)
        except (Rejected, InvalidInput) as error:
            refusal = error if isinstance(error, Rejected) else refused("tags-mismatch", MISMATCH)
            self._claims.give_up(place, failed=refusal.code == "tags-mismatch")
            _wait_for_tick(start)
            raise refusal from None
        self.metrics.count("decryptions")
        self.metrics.count("decryption_seconds", time.perf_counter() - start)
        return Acknowledgement(released.contributors, released.weight)

    def _make_order(self, round_: Round, run: Run, who: Identity) -> None:
        """Make an order from the released sensitivities, also after a crash between release and ordering."""
        result = self._ledger(who).result(address_of(round_))
        if result is not None:
            server = self._server(run, who, number=round_.number)
            server.set_order(round_, read_released(result, round_), first=run.flags())

    def _authorised(self, name: str, who: Identity) -> Run:
        """The run of that name; refused to aggregators that it was not registered with."""
        run = self._runs.get(name)
        if who.role == "aggregator" and who.name not in run.aggregators:
            raise refused("not-the-aggregator", f"{who.name} is not the aggregator of run {name}")
        return run

    def _number(self, run: Run, who: Identity) -> int:
        """The client's number in the run."""
        client = self._runs.number(run, who.name)
        if client is None:
            raise refused("not-a-member", f"{who.name} is not registered with run {run.run}")
        return client

    def _own(self, place: RoundAddress, who: Identity) -> tuple[Run, Round, int]:
        """The run and round there, and the number of the client, which must be a member of the round."""
        run, round_ = self._runs.get(place.run), self._rounds.get(place)
        return run, round_, self._member(run, round_, who)

    def _member(self, run: Run, round_: Round, who: Identity) -> int:
        client = self._number(run, who)
        if client not in round_.weights:
            raise refused("not-a-member", f"client {client} is no member of cluster {round_.cluster} in this round")
        return client

    def _starter(self, place: RoundAddress, who: Identity) -> Run:
        """The run of a round whose model the client may receive: its own round, or the one before its present round.

        If only some members of a cluster take part in a round, others may start the next one from its model.
        """
        run, round_ = self._runs.get(place.run), self._rounds.get(place)
        if run.release_to_aggregator:
            raise refused("not-released", f"models of run {run.run} come from its aggregator")
        if self._number(run, who) not in round_.weights:
            latest = self._rounds.latest(place.run, place.cluster)
            self._member(run, latest if latest.number == place.number + 1 else round_, who)
        return run

    def _ledger(self, who: Identity) -> DatabaseLedger:
        return DatabaseLedger(self.store, self._root, who)

    def _server(self, run: Run, who: Identity, *, number: int = -1) -> KeyServer:
        rule = ServerRule(**run.server.model_dump())
        kept = None if run.release_to_aggregator else rule
        ledger = DatabaseLedger(self.store, self._root, who, number=number, rule=kept)
        return KeyServer(self._key(run.run), rules=self._rules(run), ledger=ledger, statistics=rule.statistics)

    def _rules(self, run: Run) -> ReleaseRules:
        limits = self.policy
        weights = (limits.largest_weight, limits.largest_ratio, limits.colluders)
        return ReleaseRules(run.min_contributors, run.quorum, *weights, fixed_groups=limits.groups == "fixed")

    def _key(self, name: str) -> VaultKey:
        """The run's key; it never changes, so its file is read once."""
        if name not in self._keys:
            self._keys[name] = VaultKey(self._vault, self._folder.key(name), constant_time=self.policy.constant_time)
        return self._keys[name]

    def _note_fetch(self, what: str, who: Identity, place: RoundAddress) -> None:
        """Log what was sent to whom: always the first time, then with a limit of lines per minute."""
        skipped = self._fetches.passes_first(str(who), f"{what} {who} {place}")
        if skipped is not None:
            more = {"and_more_before": skipped} if skipped else {}
            self.store.note("handed-out", who, place, what=what, **more)


def _wait_for_tick(start: float) -> None:
    """Wait until 1, 2, 4, 8 … ticks after `start`, as the time of a failure could reveal something about the sum."""
    elapsed = time.perf_counter() - start
    time.sleep(_TICK * 2 ** max(0, math.ceil(math.log2(elapsed / _TICK))) - elapsed)
