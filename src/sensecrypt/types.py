"""The basic types: frozen values that the layers above pass to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.errors import MaskMismatch

BoolVector = npt.NDArray[np.bool_]
Decision = Literal["objective", "budget", "security", "mi"]


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """Which parameters are encrypted: a parameter mask, a block mask or a prefix, all as one flag per block.

    The model's parameters are in *slots*: slot s holds parameter `order[s]`, or parameter s without an order. Flag b is
    for slots b·block … (b+1)·block − 1. The last block is shorter if `block` does not divide `size`. A parameter mask
    has `block` = 1; in a prefix, the first flags are set.

    Attributes:
        flags: one bool per block, read-only.
        size: number of parameters.
        block: parameters per block.
        order: permutation of the parameters, read-only; None: the natural order.
    """

    flags: BoolVector
    size: int
    block: int = 1
    order: checks.IntVector | None = None

    def __post_init__(self) -> None:
        """Check the parts against each other and make the arrays read-only."""
        checks.whole("size", self.size, low=1)
        checks.whole("block", self.block, low=1, high=self.size)
        flags = np.array(self.flags, dtype=bool)
        if flags.shape != (-(-self.size // self.block),):
            problem = f"has shape {flags.shape}; {self.size:,} parameters in blocks of {self.block:,} are "
            raise MaskMismatch("flags", f"{problem}{-(-self.size // self.block):,} blocks", "pass one flag per block")
        flags.setflags(write=False)
        object.__setattr__(self, "flags", flags)
        if self.order is not None:
            order = checks.permutation("order", self.order, self.size).view()
            order.setflags(write=False)
            object.__setattr__(self, "order", order)

    @classmethod
    def from_array(cls, selected: npt.ArrayLike) -> Mask:
        """Return a parameter mask from one bool per parameter."""
        flags = np.asarray(selected)
        if flags.dtype != np.bool_:
            raise MaskMismatch("selected", f"has dtype {flags.dtype}", "pass one bool per parameter")
        return cls(flags.ravel(), flags.size)

    @classmethod
    def prefix(cls, blocks: int, *, size: int, block: int = 1, order: checks.IntVector | None = None) -> Mask:
        """Return the mask of the first `blocks` blocks of `order`."""
        checks.whole("size", size, low=1)
        total = -(-size // checks.whole("block", block, low=1, high=size))
        checks.whole("blocks", blocks, low=0, high=total)
        return cls(np.arange(total) < blocks, size, block, order)

    @classmethod
    def from_bits(cls, bits: bytes, *, size: int, block: int = 1, order: checks.IntVector | None = None) -> Mask:
        """Return the mask of the bits from `to_bits`, which do not contain `size`, `block` and `order`."""
        total = -(-checks.whole("size", size, low=1) // checks.whole("block", block, low=1, high=size))
        packed = np.frombuffer(bits, dtype=np.uint8)
        if packed.size != -(-total // 8):
            problem = f"has {packed.size:,} bytes, but a mask of {total:,} blocks has {-(-total // 8):,}"
            raise MaskMismatch("bits", problem, "pass the bits of a mask of this model")
        flags = np.unpackbits(packed, bitorder="little")
        if flags[total:].any():
            raise MaskMismatch("bits", "has set bits beyond the last block", "pass the bits of a mask of this model")
        return cls(flags[:total].astype(bool), size, block, order)

    def to_bits(self) -> bytes:
        """Return one bit per block, least significant first, filled with zeros to whole bytes."""
        return np.packbits(self.flags, bitorder="little").tobytes()

    def to_array(self) -> BoolVector:
        """Return one bool per parameter, in the natural order."""
        slots = np.repeat(self.flags, self.block)[: self.size]
        if self.order is None:
            return slots
        selected = np.empty(self.size, dtype=bool)
        selected[self.order] = slots
        return selected

    @property
    def blocks(self) -> int:
        """Number of encrypted blocks: one ciphertext each."""
        return int(np.count_nonzero(self.flags))

    @property
    def count(self) -> int:
        """Number of encrypted parameters."""
        missing = self.flags.size * self.block - self.size if self.flags[-1] else 0
        return self.blocks * self.block - missing

    @property
    def share(self) -> float:
        """Encrypted parameters as a fraction of all."""
        return self.count / self.size

    def coverage(self, sensitivity: npt.ArrayLike) -> float:
        """Return the share of the total sensitivity that is on encrypted parameters."""
        gains = checks.sensitivity_vector("sensitivity", sensitivity)
        if gains.size != self.size:
            problem = f"has {gains.size:,} elements, but the mask is for {self.size:,} parameters"
            raise MaskMismatch("sensitivity", problem, "pass both from the same model")
        return float(gains[self.to_array()].sum() / gains.sum())

    def union(self, *others: Mask) -> Mask:
        """Return the mask of everything that this mask or one of `others` encrypts."""
        flags = self.flags.copy()
        for other in others:
            self._require_same_layout(other)
            flags |= other.flags
        return Mask(flags, self.size, self.block, self.order)

    def __or__(self, other: Mask) -> Mask:
        return self.union(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mask):
            return NotImplemented
        return self._same_layout(other) and bool(np.array_equal(self.flags, other.flags))

    def __hash__(self) -> int:
        return hash((self.size, self.block, self.to_bits()))

    def __repr__(self) -> str:
        ordered = ", ordered" if self.order is not None else ""
        return f"Mask({self.count:,} of {self.size:,} parameters, {self.blocks:,} blocks of {self.block}{ordered})"

    def _same_layout(self, other: Mask) -> bool:
        if (self.size, self.block) != (other.size, other.block):
            return False
        if self.order is None or other.order is None:
            return self.order is other.order
        return bool(np.array_equal(self.order, other.order))

    def _require_same_layout(self, other: Mask) -> None:
        if not self._same_layout(other):
            problem = f"has {other.size:,} parameters in blocks of {other.block}, this one {self.size:,} in blocks of "
            fix = "unite masks of the same model, block size and order"
            raise MaskMismatch("other", f"{problem}{self.block}, or their orders differ", fix)


@dataclass(frozen=True)
class Selection:
    """What a client encrypts, and why.

    Attributes:
        mask: the selected mask.
        coverage: share of the total sensitivity that is encrypted.
        security_floor: the required coverage, 1 − C·e^(−Bα).
        mi: mutual information in bits between all weights and the visible ones; None if no weights were given.
        budget_blocks: number of blocks that the budget allows.
        decided_by: the constraint that changed the result; "objective" if there is none.
        feasible: whether all constraints hold.
        gap: upper bound on how much lower the objective of another feasible mask can be; 0: this one is optimal.
    """

    mask: Mask
    coverage: float
    security_floor: float
    mi: float | None
    budget_blocks: int
    decided_by: Decision
    feasible: bool
    gap: float = 0.0

    @property
    def blocks(self) -> int:
        """Number of encrypted blocks."""
        return self.mask.blocks

    @property
    def overrun(self) -> int:
        """Number of encrypted blocks beyond the budget."""
        return max(0, self.blocks - self.budget_blocks)


@dataclass(frozen=True)
class Device:
    """The speed of a client's device.

    Attributes:
        cpus: number of processors.
        bandwidth: megabytes per second.
        ghz: clock speed of a processor.
    """

    cpus: float
    bandwidth: float
    ghz: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values that are not positive."""
        for name in ("cpus", "bandwidth", "ghz"):
            checks.number(name, getattr(self, name), low=0.0, open_low=True)

    @property
    def speed(self) -> float:
        """Clock speed times processors, the paper's measure."""
        return self.cpus * self.ghz


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which clients train a model together.

    Attributes:
        labels: the cluster of each client, numbered 0, 1, … in order of first appearance.
        exemplars: for each cluster, the client that represents it.
        silhouette: mean silhouette of the best split, even if it was not used; None if there was no split to score.
        why: a description of how the clusters were found.
    """

    labels: checks.IntVector
    exemplars: checks.IntVector
    silhouette: float | None
    why: str

    @property
    def count(self) -> int:
        """Number of clusters."""
        return self.exemplars.size

    def members(self, cluster: int) -> checks.IntVector:
        """Return the clients of one cluster, ascending."""
        return np.flatnonzero(self.labels == cluster)
