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

from sensecrypt.crypto import publicfile
from sensecrypt.errors import InvalidInput, Rejected, WorkerDied
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.answers import (
    Acknowledgement,
    read_opened,
    read_sketch,
    seal_ranking,
    seal_seed,
    seal_sketch,
)
from sensecrypt.protocol.descriptions import describe_round, read_round
from sensecrypt.protocol.keyserver import MISMATCH, KeyServer
from sensecrypt.protocol.messages import Aggregate, Receipt
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.sumrules import LEAST_OF_EVEN, SumRules
from sensecrypt.services.dkms.addresses import Place, place_of
from sensecrypt.services.dkms.certificates import Identity
from sensecrypt.services.dkms.folder import Folder
from sensecrypt.services.dkms.ledger import DatabaseLedger
from sensecrypt.services.dkms.limits import Buckets
from sensecrypt.services.dkms.metrics import Metrics
from sensecrypt.services.dkms.openings import Openings
from sensecrypt.services.dkms.policy import Policy
from sensecrypt.services.dkms.problems import from_rejected, refused
from sensecrypt.services.dkms.registry import Registry, Run, check_run, facts_of
from sensecrypt.services.dkms.store import Store
from sensecrypt.services.dkms.vaultkey import VaultKey, VaultProcess, generate_key

T = TypeVar("T")
_HEADER_BYTES = 1 << 17  # of a message, and whatever else is short in it
_TICK = 0.25  # seconds
_KEPT_MODELS = 8  # in memory, for members who ask at the same time


class KeyService:
    """The key server with its state, its vault and its limits."""

    def __init__(
        self, folder: Folder, root: bytes, store: Store, vault: VaultProcess, policy: Policy, *, workers: int
    ) -> None:
        """A service over an open store and a running vault; `workers` processes decrypt."""
        self.store, self.policy, self.metrics = store, policy, Metrics()
        self._folder, self._root, self._vault, self._workers = folder, root, vault, workers
        self._registry = Registry(store)
        self._openings = Openings(store, policy.failures_per_round, policy.failures_per_run)
        self._waiting = threading.BoundedSemaphore(policy.openings_at_once)
        self._decryptions = Buckets(rate=policy.decryptions_per_minute / 60, burst=policy.decryptions_per_minute)
        self._registering, self._keeping = threading.Lock(), threading.Lock()
        self._rounds: dict[tuple[str, int, int, str], threading.Lock] = {}
        self._models: dict[Place, bytes] = {}
        self._keys: dict[str, VaultKey] = {}

    # What an admin asks for.

    def register_run(self, run: Run, who: Identity) -> dict[str, Any]:
        """Make a key pair for a run and keep who its members are; the same again changes nothing."""
        self._check_policy(run)
        with self._registering:
            known = self._registry.find_run(run.run)
            if known is None:
                self._add_run(run, who)
            elif known != run:
                raise refused("conflict", "a run of that name is registered, and differs")
        return self.run(run.run, who)

    # What everybody asks for.

    def run(self, name: str, who: Identity) -> dict[str, Any]:
        """What is public about a run, the asking client's own number, and for the aggregator who has which."""
        run = self._registry.run(name)
        told = {"run": name, "size": run.size, "profile": run.profile, **asdict(self._rules(run))}
        client = self._client(run, who) if who.role == "client" else None
        fingerprint = self._key(name).public.fingerprint
        names = {str(number): name for number, name in run.members.items()} if who.role == "aggregator" else None
        return {**told, "members": len(run.members), "fingerprint": fingerprint, "client": client, "names": names}

    def public_key(self, name: str, who: Identity) -> dict[str, Any]:
        """The run's public key, as key files have it."""
        self.run(name, who)
        key = self._key(name).public
        return {"format": publicfile.PUBLIC_FORMAT, "version": publicfile.VERSION, **publicfile.public_fields(key)}

    # What the aggregator asks for.

    def register_round(self, data: bytes, place: Place, who: Identity) -> None:
        """Keep a round's members and weights; the same again changes nothing."""
        run = self._registry.run(place.run)
        round_ = _checked(read_round, data)
        if place_of(round_) != place:
            raise refused("rejected", "the message describes another round than its address")
        check_run(round_, run)
        try:
            self._rules(run).check(round_.weights, round_.weights.keys())
        except Rejected as error:
            raise from_rejected(error) from None
        self._registry.add_round(round_, who)

    def receipts(self, place: Place, who: Identity) -> list[int]:
        """Whose receipts have arrived."""
        return self._ledger(who).signed(self._registry.round(place))

    def aggregate_limit(self, place: Place) -> int:
        """How long an aggregate of that run can be: every block encrypted and every value plain, and a header."""
        run = self._registry.run(place.run)
        profile = get_profile(run.profile)
        return run.blocks * (profile.ciphertext_bytes + 1) + run.size * profile.slot_bits // 8 + _HEADER_BYTES

    def receipt_limit(self, place: Place) -> int:
        """How long a receipt of that run can be: a mask, and a header."""
        return self._registry.run(place.run).blocks // 8 + _HEADER_BYTES

    @contextlib.contextmanager
    def place_in_line(self) -> Iterator[None]:
        """Held by whoever submits a sum, from before its body is read: so few bodies are in memory at once."""
        if not self._waiting.acquire(blocking=False):
            raise refused("busy", f"{self.policy.openings_at_once} sums wait for decryption already")
        self.metrics.count("openings_waiting")
        try:
            yield
        finally:
            self.metrics.count("openings_waiting", -1)
            self._waiting.release()

    def open_aggregate(self, data: bytes, place: Place, who: Identity) -> bytes:
        """Decrypt and verify a sum, once; the same again is told what came out, and nothing is decrypted."""
        run, round_ = self._registry.run(place.run), self._registry.round(place)
        digest = _checked(lambda message: Aggregate.from_bytes(message, round_), data).digest()
        # Sums of fixed groups are checked against each other: one of a run at a time.
        line = (place.run, -1, -1, place.purpose) if self.policy.groups == "fixed" else place.round
        with self._rounds.setdefault(line, threading.Lock()):
            known = self._openings.claim(place, digest, who)
            if known is None:
                known = self._decrypt(data, round_, run, who)
            if place.purpose == "sensitivity":
                self._make_order(round_, run, who)
        return known.to_bytes()

    # What a client asks for.

    def turn_sketch(self, name: str, data: bytes, who: Identity) -> bytes:
        """A client's sketch, turned; the first that it sent, whatever it sends later: more would tell the rotation."""
        run = self._registry.run(name)
        client = self._client(run, who)
        row = self._ledger(who).keep_sketch(name, client, _checked(read_sketch, data))
        return seal_sketch(self._server(run, who).turn(name, row))

    def round(self, place: Place, who: Identity) -> bytes:
        """A round as it was registered."""
        round_ = self._registry.round(place)
        if who.role == "client":
            self._member(self._registry.run(place.run), round_, who)
        return describe_round(round_)

    def receipt_seed(self, place: Place, who: Identity) -> bytes:
        """The members' shared seed for a round's receipts."""
        run, round_ = self._own(place, who)
        self._note_handed("receipt-seed", who, facts_of(place))
        return seal_seed(self._server(run, who).receipt_seed(round_))

    def order(self, place: Place, who: Identity) -> bytes:
        """The order of the parameters that holds for a round."""
        _, round_ = self._own(place, who)
        ranking = self._ledger(who).ranking_of(round_)
        if ranking is None:
            raise refused("no-order", "this round has no order of the parameters")
        self._note_handed("order", who, facts_of(place))
        return seal_ranking(ranking)

    def take_receipt(self, data: bytes, place: Place, who: Identity) -> None:
        """Keep a client's receipt; the same again changes nothing."""
        run, round_ = self._own(place, who)
        client = self._client(run, who)
        try:
            self._server(run, who).take_receipt(data, round_, sender=client)
        except Rejected as error:
            if error.code != "doubled-receipt" or not self._is_known(Receipt.from_bytes(data, round_), round_, who):
                raise from_rejected(error) from None
            return
        self.metrics.count("receipts")

    def model(self, place: Place, who: Identity) -> bytes:
        """The opened sum of a member's own cluster."""
        self._own(place, who)
        result = self._models.get(place)
        if result is None:
            result = self._ledger(who).result(place) if place.purpose == "model" else None
            if result is None:
                raise refused("not-opened", "this round has no opened model")
            with self._keeping:
                while len(self._models) >= _KEPT_MODELS:
                    self._models.pop(next(iter(self._models)))
                self._models[place] = result
        self._note_handed("model", who, facts_of(place))
        self.metrics.count("models_handed_out")
        return result

    # How it is done.

    def _check_policy(self, run: Run) -> None:
        try:
            profile = get_profile(run.profile)
        except InvalidInput as error:
            raise refused("outside-policy", f"the profile {error.problem}"[:200]) from None
        if profile.security_bits == 0 and not self.policy.allow_insecure:
            raise refused("outside-policy", f"profile {run.profile} gives no security")
        if run.size > self.policy.max_parameters or len(run.members) > self.policy.max_members:
            raise refused("outside-policy", "the model has too many parameters, or the run too many members")
        if not self.policy.min_contributors <= run.min_contributors <= len(run.members):
            reason = f"min_contributors is to be at least {self.policy.min_contributors}, and at most all members"
            raise refused("outside-policy", reason)
        if not self.policy.quorum <= run.quorum <= 1:
            raise refused("outside-policy", f"quorum is to be at least {self.policy.quorum}, and at most 1")
        if len(set(run.members.values())) != len(run.members):
            raise refused("outside-policy", "two members have one name")
        if any(not 0 <= start < stop <= run.size for start, stop in run.first):
            raise refused("outside-policy", "a range of `first` is outside the model")

    def _add_run(self, run: Run, who: Identity) -> None:
        path = self._folder.key(run.run)
        if path.exists():  # of a registration that a crash interrupted, or that a restored database does not know
            path.replace(path.with_name(f"{path.name}.unused-{secrets.token_hex(4)}"))
        try:
            public = generate_key(self._vault, path, run.profile)
        except WorkerDied as error:
            raise refused("decryption-failed", str(error)) from None
        self._registry.add_run(run, public.fingerprint, who)

    def _decrypt(self, data: bytes, round_: Round, run: Run, who: Identity) -> Acknowledgement:
        place = place_of(round_)
        if not self._decryptions.take("all"):
            self._openings.release(place, failed=False)
            raise refused("rate-limited", f"more than {self.policy.decryptions_per_minute} decryptions a minute")
        start = time.perf_counter()
        try:
            opened = self._server(run, who).open(data, round_, workers=self._workers)
        except Rejected as error:
            self._openings.release(place, failed=error.code == "receipts-mismatch")
            _wait_for_tick(start)
            raise from_rejected(error) from None
        except InvalidInput:
            self._openings.release(place, failed=True)
            _wait_for_tick(start)
            raise refused("receipts-mismatch", MISMATCH) from None
        except WorkerDied as error:
            raise refused("decryption-failed", str(error)) from None
        self.metrics.count("decryptions")
        self.metrics.count("decryption_seconds", time.perf_counter() - start)
        return Acknowledgement(opened.contributors, opened.weight)

    def _make_order(self, round_: Round, run: Run, who: Identity) -> None:
        """From the opened sensitivities; also if a crash came between opening and ordering."""
        result = self._ledger(who).result(place_of(round_))
        if result is not None:
            ledger = DatabaseLedger(self.store, self._root, who, number=round_.number)
            self._server(run, who, ledger).set_order(round_, read_opened(result, round_), first=run.flags())

    def _own(self, place: Place, who: Identity) -> tuple[Run, Round]:
        """The round there, if it is the asking client's own."""
        run, round_ = self._registry.run(place.run), self._registry.round(place)
        self._member(run, round_, who)
        return run, round_

    def _member(self, run: Run, round_: Round | None, who: Identity) -> None:
        client = self._client(run, who)
        if round_ is not None and client not in round_.weights:
            raise refused("not-a-member", f"client {client} is no member of cluster {round_.cluster} in this round")

    def _client(self, run: Run, who: Identity) -> int:
        client = run.client(who.name)
        if client is None:
            raise refused("not-a-member", f"{who.name} is not registered with run {run.run}")
        return client

    def _ledger(self, who: Identity) -> DatabaseLedger:
        return DatabaseLedger(self.store, self._root, who)

    def _server(self, run: Run, who: Identity, ledger: DatabaseLedger | None = None) -> KeyServer:
        key = self._key(run.run)
        return KeyServer(key, rules=self._rules(run), ledger=ledger or self._ledger(who))

    def _rules(self, run: Run) -> SumRules:
        rules = SumRules(run.min_contributors, run.quorum, self.policy.largest_weight, LEAST_OF_EVEN)
        return replace(rules, fixed_groups=self.policy.groups == "fixed")

    def _key(self, name: str) -> VaultKey:
        """The run's key; it never changes, so that its file is read once."""
        if name not in self._keys:
            self._keys[name] = VaultKey(self._vault, self._folder.key(name))
        return self._keys[name]

    def _is_known(self, receipt: Receipt, round_: Round, who: Identity) -> bool:
        """Whether it is the receipt that was taken; after the opening, as far as that is remembered."""
        ledger = self._ledger(who)
        known = replace(receipt, pad=None) if ledger.was_opened(round_) else receipt
        return ledger.receipts(round_).get(receipt.client) == known

    def _note_handed(self, what: str, who: Identity, where: dict[str, str | int] | dict[str, str]) -> None:
        self.store.note({"event": "handed-out", "what": what, "role": who.role, "name": who.name, **where})


def _wait_for_tick(start: float) -> None:
    """Sums that fail are told so 1, 2, 4, 8 … ticks after they came: the time would tell what they decrypt to."""
    elapsed = time.perf_counter() - start
    time.sleep(_TICK * 2 ** max(0, math.ceil(math.log2(elapsed / _TICK))) - elapsed)


def _checked(read: Callable[[bytes], T], data: bytes) -> T:
    try:
        return read(data)
    except Rejected as error:
        raise from_rejected(error) from None
