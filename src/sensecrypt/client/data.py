"""A client's data in the usual forms, behind one interface.

Tensors and data sets are shuffled by the run's seed and divided into batches of the configured size. A loader defines
its own batches, order and augmentation, and its samples are not stored.
"""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import DataLoader, default_collate

from sensecrypt.client.usercode import Batch, as_tensors, map_tensors, seeded, size_of, tensors_of
from sensecrypt.errors import InvalidInput

_FIX = "pass tensors, a Dataset, a DataLoader, a list of batches, or a function that returns one of these"
_AT_ONCE = 512
Pair = tuple[torch.Tensor, torch.Tensor]


class ClientData(ABC):
    """Data that are read in batches.

    Attributes:
        own: the object that the user passed, for the user's own functions.
    """

    own: Any

    @property
    @abstractmethod
    def samples(self) -> int:
        """The number of samples."""

    @abstractmethod
    def epoch(self, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Return batches of all samples, each once, in the order of training."""

    @abstractmethod
    def ordered(self, size: int = _AT_ONCE) -> Iterator[Batch]:
        """Return batches of all samples, each once, in their own order."""

    @abstractmethod
    def some(self, many: int, rng: np.random.Generator) -> ClientData:
        """Return at least `many` of the samples, or all if there are fewer."""

    def begin(self, seed: int) -> None:  # noqa: B027 (most have no generator of their own)
        """Seed the data's own generators."""

    @property
    def pair(self) -> Pair | None:
        """Inputs and labels, if the data are two such tensors; else None."""
        return None

    def fingerprint(self) -> str:
        """Return a hash of the samples that does not depend on their order, because loaders shuffle."""
        with seeded(0):
            self.begin(0)
            samples = sorted(each for batch in self.ordered() for each in _hashes(batch))
        return hashlib.sha256(b"".join(samples)).hexdigest()


@final
class Tensors(ClientData):
    """Tensors that hold one sample per row."""

    def __init__(self, argument: str, own: Any) -> None:
        """Store a tensor, or a tuple or dict of tensors."""
        self.own = self.parts = as_tensors(own)
        lengths = {name or "it": len(tensor) if tensor.ndim else 0 for name, tensor in tensors_of(self.parts)}
        if not lengths or len(set(lengths.values())) > 1:
            shapes = ", ".join(f"{name} has {length:,}" for name, length in lengths.items()) or "no tensors"
            raise InvalidInput(argument, f"does not have one sample per row: {shapes}", "give all tensors equal length")
        self._samples = next(iter(lengths.values()))
        if not self._samples:
            raise InvalidInput(argument, "has no samples", "leave this client out, or give it data")

    @property
    def samples(self) -> int:
        """The number of rows."""
        return self._samples

    @property
    def pair(self) -> Pair | None:
        """The data if they are two tensors, the second with one integer per sample; else None."""
        if not (isinstance(self.parts, tuple) and len(self.parts) == 2):
            return None
        inputs, labels = self.parts
        whole = isinstance(labels, torch.Tensor) and labels.ndim == 1 and labels.dtype in _WHOLE
        return (inputs, labels.to(torch.int64)) if whole and isinstance(inputs, torch.Tensor) else None

    def epoch(self, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Return shuffled batches."""
        order = torch.randperm(self.samples, generator=generator)
        return (self._rows(order[start : start + size]) for start in range(0, self.samples, size))

    def ordered(self, size: int = _AT_ONCE) -> Iterator[Batch]:
        """Return batches in the order of rows."""
        return (self._rows(slice(start, start + size)) for start in range(0, self.samples, size))

    def some(self, many: int, rng: np.random.Generator) -> ClientData:
        """Return `many` random samples."""
        if many >= self.samples:
            return self
        return Tensors("data", self._rows(torch.from_numpy(rng.permutation(self.samples)[:many])))

    def _rows(self, rows: Any) -> Batch:
        return map_tensors(lambda tensor: tensor[rows], self.parts)


@final
class Items(ClientData):
    """A data set whose samples are read one by one."""

    def __init__(self, argument: str, own: Any) -> None:
        """Store an object with a length whose items are samples."""
        self.own = own
        if not len(own):
            raise InvalidInput(argument, "has no samples", "leave this client out, or give it data")

    @property
    def samples(self) -> int:
        """The length of the data set."""
        return len(self.own)

    def epoch(self, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Return shuffled batches."""
        return self._batches(torch.randperm(self.samples, generator=generator).tolist(), size)

    def ordered(self, size: int = _AT_ONCE) -> Iterator[Batch]:
        """Return batches in the order of items."""
        return self._batches(range(self.samples), size)

    def some(self, many: int, rng: np.random.Generator) -> ClientData:
        """Return `many` random samples."""
        if many >= self.samples:
            return self
        return Items("data", torch.utils.data.Subset(self.own, rng.permutation(self.samples)[:many].tolist()))

    def _batches(self, order: Iterable[int], size: int) -> Iterator[Batch]:
        rest = iter(order)
        while chosen := list(itertools.islice(rest, size)):
            yield default_collate([as_tensors(self.own[index]) for index in chosen])


@final
class Batches(ClientData):
    """A loader, or another object that yields batches each time it is iterated over."""

    def __init__(self, argument: str, own: Iterable[Any]) -> None:
        """Store an iterable of batches."""
        self.own, self._counted = own, 0
        self._argument = argument

    @property
    def samples(self) -> int:
        """The length of the loader's sampler; without one, the number of samples counted in one pass."""
        if not self._counted:
            try:
                self._counted = len(self.own.sampler)
            except (AttributeError, TypeError):
                self._counted = sum(size_of(batch) for batch in self.ordered())
        if not self._counted:
            raise InvalidInput(self._argument, "has no samples", "leave this client out, or give it data")
        return self._counted

    def epoch(self, size: int, generator: torch.Generator) -> Iterator[Batch]:  # noqa: ARG002 (the loader has its own)
        """Return the loader's batches in its order."""
        return self.ordered()

    def ordered(self, size: int = _AT_ONCE) -> Iterator[Batch]:  # noqa: ARG002 (the loader has its own)
        """Return the loader's batches in its order."""
        return (as_tensors(batch) for batch in self.own)

    def some(self, many: int, rng: np.random.Generator) -> ClientData:  # noqa: ARG002 (takes the first ones)
        """Return the loader's first batches, with at least `many` samples."""
        chosen, found = list[Batch](), 0
        for batch in self.ordered():
            chosen.append(batch)
            found += size_of(batch)
            if found >= many:
                break
        return Batches(self._argument, chosen)

    def begin(self, seed: int) -> None:
        """Seed the loader's own generators; otherwise batches would depend on what was loaded before."""
        for owner in (self.own, getattr(self.own, "sampler", None)):
            generator = getattr(owner, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(seed)


_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def as_data(own: Any, argument: str = "data") -> ClientData:
    """Return a user's data as `ClientData`."""
    if isinstance(own, ClientData):
        return own
    if isinstance(own, list) and own and all(isinstance(each, (torch.Tensor, np.ndarray)) for each in own):
        own = tuple(own)
    if isinstance(own, (tuple, Mapping, torch.Tensor, np.ndarray)):
        return Tensors(argument, own)
    if isinstance(own, DataLoader) or (isinstance(own, list) and own):
        return Batches(argument, own)
    if hasattr(own, "__getitem__") and hasattr(own, "__len__") and not isinstance(own, (str, bytes)):
        return Items(argument, own)
    if isinstance(own, Iterator):
        raise InvalidInput(argument, "is an iterator, which can be read only once", _FIX)
    if isinstance(own, Iterable) and not isinstance(own, (str, bytes)):
        return Batches(argument, own)
    raise InvalidInput(argument, f"is a {type(own).__name__}", _FIX)


def is_factory(own: Any) -> bool:
    """Return whether this is a function that returns data."""
    return isinstance(own, Callable) and not hasattr(own, "__getitem__") and not isinstance(own, Iterable)  # type: ignore[arg-type]


def _hashes(batch: Batch) -> Iterator[bytes]:
    """Yield one hash per sample."""
    parts = [tensor.detach().contiguous() for _, tensor in tensors_of(batch) if tensor.ndim]
    rows = [part.view(torch.uint8).numpy() if part.dtype == torch.bfloat16 else part.numpy() for part in parts]
    for row in zip(*rows, strict=True):
        yield hashlib.sha256(b"".join(each.tobytes() for each in row)).digest()
