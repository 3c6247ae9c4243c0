"""The process that holds the secret keys: it generates keys and decrypts.

It has no network and no database. The service starts it and sends requests over a socket pair; both end together.
So secret keys are never in the memory of the process that parses requests, decryption does not delay other answers, and
workers can be forked safely, because this process has one thread.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from sensecrypt.crypto.keyfile import read_secret, write_secret
from sensecrypt.crypto.keys import generate_keypair
from sensecrypt.crypto.scheme import StorableSecretKey
from sensecrypt.crypto.secretschemes import secret_scheme_of
from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.keyservice.http.processes import forbid_core_dumps
from sensecrypt.protocol.envelope import parse_any, serialize

_MOST_KEYS = 16  # in memory; others are read again when needed


class Vault:
    """Secret keys by file, all encrypted under one passphrase."""

    def __init__(self, passphrase: str) -> None:
        self._passphrase = passphrase
        self._keys: dict[str, StorableSecretKey] = {}

    def answer(self, request: bytes) -> bytes:
        """The answer to a request, or the answer that reports an error."""
        try:
            fields, arrays = parse_any(request, "request")
            if fields["do"] == "generate":
                _, secret = generate_keypair(fields["profile"])
                write_secret(Path(fields["path"]), secret, self._passphrase)
                return serialize("done", {}, {})
            if fields["do"] == "forget":
                self._keys.pop(fields["path"], None)
                return serialize("done", {}, {})
            key = self._key(fields["path"])
            wanted = int(fields["constant_time"]) and secret_scheme_of(key).constant_time
            options = {"constant_time": True} if wanted else {}
            count, workers = int(fields["count"]), int(fields["workers"])
            values = key.decrypt(arrays["ciphertexts"], count, workers=workers, **options)
            return serialize("done", {}, {"values": values.astype(np.int64)})
        except InvalidInput as error:
            parts = {"argument": error.argument, "problem": error.problem, "fix": error.fix}
            return serialize("failed", {"error": type(error).__name__, **parts}, {})
        except Exception as error:  # without its text, which might contain a secret
            kind = type(error).__name__ if isinstance(error, SenseCryptError) else "internal"
            return serialize("failed", {"error": kind, "argument": "", "problem": "", "fix": ""}, {})

    def _key(self, path: str) -> StorableSecretKey:
        if path not in self._keys:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.pop(next(iter(self._keys)))
            self._keys[path] = read_secret(path, self._passphrase)
        return self._keys[path]


def serve(connection: Connection) -> None:
    """Answer requests until the service closes the connection."""
    vault = Vault(connection.recv_bytes().decode("utf-8", "surrogatepass"))
    while True:
        connection.send_bytes(vault.answer(connection.recv_bytes()))


def main(handle: int) -> None:
    """Run the process. It ends when the service ends, even during a decryption."""
    forbid_core_dumps()  # again: a new program may leave core files
    parent = os.getppid()

    def watch(*_: Any) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service, which shares the terminal, ends this process itself
    signal.signal(signal.SIGALRM, watch)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    try:
        serve(Connection(handle))
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
