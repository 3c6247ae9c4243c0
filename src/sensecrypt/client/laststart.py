"""Where a client of a fleet started its last round, so that the next start can be checked against it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from sensecrypt.errors import Rejected
from sensecrypt.files import make_folder, write_whole
from sensecrypt.protocol.envelope import parse, serialize

_NAME = "start.safetensors"
_BEFORE_ALL = -1


class LastStart:
    """A file in the client's folder of the run: how far the cluster had moved, and after which round."""

    def __init__(self, folder: Path) -> None:
        """There may be none yet."""
        self._folder, self._path = folder, folder / _NAME

    def read(self, *, size: int) -> tuple[npt.NDArray[np.float32], int]:
        """The last start and its round; before the first one, no move and round -1."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return np.zeros(size, dtype=np.float32), _BEFORE_ALL
        try:
            fields, arrays = parse(data, "start", header={"number": int}, tensors={"moved": (np.dtype("<f4"), 1)})
        except Rejected:
            raise Rejected(f"{self._path} is damaged: the next model cannot be checked, so none is trained") from None
        return arrays["moved"], fields["number"]

    def write(self, moved: npt.NDArray[np.float32], number: int) -> None:
        """Keep this start in place of the last one."""
        make_folder(self._folder)
        write_whole(self._path, serialize("start", {"number": number}, {"moved": moved.astype("<f4")}))
