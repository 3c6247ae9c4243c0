"""What a scheme costs, operation by operation: seconds of work on one core, and ciphertexts, for the device clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt

from sensecrypt.crypto.obfuscators import ObfuscatorPool
from sensecrypt.crypto.paillier import ObfuscatorMaker
from sensecrypt.crypto.scheme import (
    Accumulator,
    Ciphertexts,
    DecryptionKey,
    EncryptionKey,
    Ints,
    RowNumbers,
    multiplying,
)
from sensecrypt.engines.clock import Prices
from sensecrypt.engines.worktime import work_seconds
from sensecrypt.profiles import Profile

Operation = Literal["encrypt", "add", "decrypt", "multiply", "add_plain"]
_OPERATIONS: tuple[Operation, ...] = get_args(Operation)


@dataclass
class Spent:
    """What was spent since the last look.

    Attributes:
        seconds: to be charged, by operation.
        blocks: ciphertexts, by operation.
        ahead_seconds: spent on randomness that counts as made before.
        actual_seconds: that the calls really took, whatever is charged: what is left of a lap is other work.
    """

    seconds: dict[Operation, float] = field(default_factory=lambda: dict.fromkeys(_OPERATIONS, 0.0))
    blocks: dict[Operation, int] = field(default_factory=lambda: dict.fromkeys(_OPERATIONS, 0))
    ahead_seconds: float = 0.0
    actual_seconds: float = 0.0


class Meter:
    """Counts the operations of one key pair in one process."""

    def __init__(self, prices: Prices | None) -> None:
        """With `prices`, operations are charged by the ciphertext; without, as measured."""
        self._prices, self._spent = prices, Spent()

    def take(self) -> Spent:
        """What was spent since the last call."""
        taken, self._spent = self._spent, Spent()
        return taken

    @contextmanager
    def charge(self, operation: Operation, blocks: int) -> Iterator[None]:
        """Charge what happens inside."""
        start = work_seconds()
        yield
        took = work_seconds() - start
        self._spent.actual_seconds += took
        self._spent.blocks[operation] += blocks
        self._spent.seconds[operation] += took if self._prices is None else self._prices.cost(operation, blocks)

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """What happens inside counts as done before the round."""
        start = work_seconds()
        yield
        took = work_seconds() - start
        self._spent.actual_seconds += took
        self._spent.ahead_seconds += took


class MeteredKey:
    """A key that behaves as the one inside, and is metered."""

    def __init__(self, key: EncryptionKey | DecryptionKey, meter: Meter, *, ahead: bool = False) -> None:
        """Wrap one half of a key pair; with `ahead`, randomness is made outside the charged time."""
        self._key, self.meter, self._ahead = key, meter, ahead

    @property
    def profile(self) -> Profile:
        """The parameter set."""
        return self._public.profile

    @property
    def slots(self) -> int:
        """Values a ciphertext."""
        return self._public.slots

    @property
    def public(self) -> MeteredKey:
        """The other half, or itself."""
        return MeteredKey(self._public, self.meter, ahead=self._ahead)

    @property
    def _public(self) -> EncryptionKey:
        return cast("EncryptionKey", getattr(self._key, "public", self._key))

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """As the key inside does."""
        rows = -(-np.size(np.asarray(ints)) // self.slots)
        if not self._ahead:
            with self.meter.charge("encrypt", rows):
                return self._key.encrypt(ints, workers=workers)
        maker = cast("_Pooled", self._key)  # configurations allow `ahead` for Paillier only
        pool = ObfuscatorPool(maker.public, maker)
        with self.meter.ahead():
            pool.fill(rows)
        with self.meter.charge("encrypt", rows):
            return maker.encrypt(ints, workers=workers, pool=pool)

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """As the key inside does."""
        with self.meter.charge("add", len(a)):
            return self._public.add(a, b)

    def add_plain(self, a: Ciphertexts, ints: npt.ArrayLike) -> Ciphertexts:
        """As the key inside does."""
        with self.meter.charge("add_plain", len(a)):
            return self._public.add_plain(a, ints)

    def multiply(self, a: Ciphertexts, factor: int) -> Ciphertexts:
        """As the key inside does, if its scheme can."""
        inside = multiplying(self._public)
        with self.meter.charge("multiply", len(a)):
            return inside.multiply(a, factor)

    def accumulator(self, rows: int) -> Accumulator:
        """A running sum, metered as well."""
        return _MeteredAccumulator(self._public.accumulator(rows), self.meter)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:
        """As the key inside does, if it can."""
        with self.meter.charge("decrypt", len(ciphertexts)):
            return cast("DecryptionKey", self._key).decrypt(ciphertexts, count, workers=workers)


class _Pooled(ObfuscatorMaker, Protocol):
    """A Paillier key, of either half, that takes its randomness from a pool."""

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1, pool: ObfuscatorPool | None = None) -> Ciphertexts: ...


class _MeteredAccumulator:
    def __init__(self, inside: Accumulator, meter: Meter) -> None:
        self._inside, self._meter = inside, meter

    def add(self, ciphertexts: Ciphertexts, rows: RowNumbers | None = None) -> None:
        with self._meter.charge("add", len(ciphertexts)):
            self._inside.add(ciphertexts, rows)

    def result(self, rows: RowNumbers | None = None) -> Ciphertexts:
        with self._meter.charge("add", 0):
            return self._inside.result(rows)
