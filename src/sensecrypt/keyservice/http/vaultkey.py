"""The service's side of the vault: starts the process, sends requests, and has a key type that decrypts there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from sensecrypt import errors
from sensecrypt.crypto import publicfile
from sensecrypt.crypto.publicfile import read_public
from sensecrypt.crypto.scheme import Ciphertexts, Ints, StorablePublicKey
from sensecrypt.errors import InvalidCiphertext, InvalidInput, Rejected, WorkerDied
from sensecrypt.protocol.envelope import parse_any, serialize

_GONE = "the process that holds the keys ended; it is started again for the next request"


class VaultProcess:
    """A vault in its own process, one request at a time; it is started again if it dies."""

    def __init__(self, passphrase: str) -> None:
        self._passphrase = passphrase
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        with self._lock:
            self._start()

    def ask(self, fields: Mapping[str, str | int], tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        """The tensors of the answer; an error of the vault is raised here."""
        request = serialize("request", fields, tensors)
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._start()
            try:
                if self._connection is None:
                    raise EOFError
                self._connection.send_bytes(request)
                answer = self._connection.recv_bytes()
            except (EOFError, OSError):
                self._stop()
                raise WorkerDied(_GONE) from None
        return _read(answer)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name != "SENSECRYPT_PASSPHRASE"}
        command = [sys.executable, "-m", "sensecrypt.keyservice.http.vault", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  (our own module)
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        self._connection = Connection(ours.detach())
        self._connection.send_bytes(self._passphrase.encode("utf-8", "surrogatepass"))

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


class VaultKey:
    """A decryption key whose secret part stays in the vault."""

    def __init__(self, vault: VaultProcess, path: Path, *, constant_time: bool = False) -> None:
        """The key pair in that file; `constant_time` as in `SecretKey.decrypt`, where the scheme has it."""
        self._vault, self._path, self._public = vault, path, read_public(path)
        self._constant_time = constant_time

    @property
    def public(self) -> StorablePublicKey:
        """The public part."""
        return self._public

    def encrypt(self, ints: npt.ArrayLike, *, workers: int = 1) -> Ciphertexts:
        """Encrypt with the public key."""
        return self._public.encrypt(ints, workers=workers)

    def decrypt(self, ciphertexts: Ciphertexts, count: int, *, workers: int = 1) -> Ints:
        """The first `count` values of the ciphertexts, decrypted in the vault."""
        what: dict[str, str | int] = {"do": "decrypt", "path": str(self._path), "count": count}
        fields = {**what, "workers": workers, "constant_time": int(self._constant_time)}
        values: Ints = self._vault.ask(fields, {"ciphertexts": ciphertexts})["values"]
        return values


def generate_key(vault: VaultProcess, path: Path, profile: str) -> StorablePublicKey:
    """Have the vault generate and write a key pair; returns its public part."""
    vault.ask({"do": "generate", "path": str(path), "profile": profile}, {})
    return read_public(path)


def destroy_key(vault: VaultProcess, path: Path) -> None:
    """Remove the secret part from the file and the vault's memory, and overwrite the old file's bytes in place.

    A copy-on-write file system, a solid-state disk or a backup may still keep them, encrypted.
    """
    vault.ask({"do": "forget", "path": str(path)}, {})
    for unused in path.parent.glob(f"{path.name}.unused-*"):
        with unused.open("r+b") as old:
            _fill(old, unused.stat().st_size)
        unused.unlink()
    fields = publicfile.read_fields(path)
    if fields["format"] == publicfile.PUBLIC_FORMAT:
        return
    public = publicfile.public_fields(publicfile.public_key(path, fields))
    with path.open("r+b") as old:
        size = path.stat().st_size
        whole = {"format": publicfile.PUBLIC_FORMAT, "version": publicfile.VERSION, **public}
        publicfile.write_fields(path, whole, mode=0o600, force=True)
        _fill(old, size)


def _fill(file: BinaryIO, size: int) -> None:
    file.write(bytes(size))
    file.flush()
    os.fsync(file.fileno())


def _read(answer: bytes) -> dict[str, npt.NDArray[np.generic]]:
    try:
        return parse_any(answer, "done")[1]
    except Rejected:
        fields, _ = parse_any(answer, "failed")
    kind = getattr(errors, fields["error"], None)
    if isinstance(kind, type) and issubclass(kind, InvalidInput):
        raise (InvalidCiphertext if kind is InvalidCiphertext else InvalidInput)(
            fields["argument"], fields["problem"], fields["fix"]
        )
    raise WorkerDied("the process that holds the keys could not do this; see its log")
