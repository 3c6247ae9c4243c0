"""The replay guard that spans runs: a client trains from one model with the same data in one run only.

Training twice from one model on the same data, once with a client in the sum and once without it, gives that client's
model by subtraction. Within a run, `ReplayGuard` sees to it that nobody goes back. Here is one file per pair of start
model and data in the client's state folder, which names the run that has them. The folder belongs to one identity file,
and so to one key service; a second service that is used with the same folder is covered, too.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from sensecrypt.client.context import Vector
from sensecrypt.client.data import ClientData
from sensecrypt.errors import Rejected, SenseCryptError
from sensecrypt.files import make_folder
from sensecrypt.keyservice.names import NAME

REPLAYED = "replayed"


class Starts:
    """What a client has started from, in all runs."""

    def __init__(self, state: Path, data: ClientData) -> None:
        """With these data; the folder is made when something is noted."""
        self._folder, self._data = state / "starts", data.fingerprint()

    def claim(self, start: Vector, run: str) -> None:
        """Note that this run starts from this model; raise `Rejected` if another run has."""
        path = self._path(start)
        make_folder(self._folder)
        try:
            _require_own(_keep_first(path, run), run)
        except OSError as error:
            raise SenseCryptError(f"{path} cannot be written: {error.strerror}; free some space") from None

    def require_unused(self, start: Vector, run: str) -> None:
        """Raise `Rejected` if another run has started from this model; nothing is noted."""
        path = self._path(start)
        if path.exists():
            _require_own(path.read_text(encoding="utf-8", errors="replace"), run)

    def _path(self, start: Vector) -> Path:
        model = hashlib.sha256(start.tobytes()).hexdigest()
        return self._folder / hashlib.sha256(f"{model} {self._data}".encode()).hexdigest()


def _require_own(owner: str, run: str) -> None:
    if owner != run:
        known = f"run {owner}" if NAME.fullmatch(owner) else "another run, whose name is damaged"
        fix = "resume that run, or start a new one from another model, such as that of another seed"
        raise Rejected(f"this client has started from this model with the same data in {known}; {fix}", code=REPLAYED)


def _keep_first(path: Path, text: str) -> str:
    """Write the file unless it is there; what it says. Of two processes at once, one writes."""
    partial = path.with_name(f".{secrets.token_hex(8)}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError:
        return path.read_text(encoding="utf-8", errors="replace")
    finally:
        partial.unlink(missing_ok=True)
    return text
