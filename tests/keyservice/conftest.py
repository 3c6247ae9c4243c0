"""A real key service: `sensecrypt dkms serve` in a process of its own, with mutual TLS on a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sensecrypt.crypto import passphrase
from sensecrypt.keyservice.http.client import DkmsClient
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.pki import create_authority, issue

PASSPHRASE = "correct horse battery"
CLIENTS = 4
CHEAP = Path(__file__).parent / "cheap"  # its `sitecustomize` makes key files cheap


def certificate(folder: Path, role: str, name: str, *, days: int = 30) -> tuple[Path, Path]:
    """The certificate of that name and its key, issued when first asked for."""
    if not (folder / f"{name}.crt").exists():
        issue(folder, role=role, name=name, hosts=("127.0.0.1", "localhost") if role == "server" else (), days=days)
    return folder / f"{name}.crt", folder / f"{name}.key"


class Server:
    """The service, to be started, killed and started again."""

    def __init__(self, folder: Path, pki: Path):
        self.folder, self.pki = Folder(folder), pki
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def command(self, *more: str) -> list[str]:
        crt, key = certificate(self.pki, "server", "dkms")
        options = {"--folder": self.folder.path, "--ca": self.pki / "ca.crt", "--certificate": crt, "--key": key}
        flat = [str(part) for option in options.items() for part in option]
        return [sys.executable, "-m", "sensecrypt", "dkms", "serve", *flat, "--workers", "1", "--port", "0", *more]

    def start(self, *more: str) -> Server:
        path = os.pathsep.join([str(CHEAP), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "SENSECRYPT_PASSPHRASE": PASSPHRASE, "PYTHONPATH": path}
        with (self.folder.path / "stderr.txt").open("a") as stderr:
            self.process = subprocess.Popen(
                self.command(*more), stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Listening on "), self.stderr()
        self.url = line.split()[-1]
        return self

    def stderr(self) -> str:
        return (self.folder.path / "stderr.txt").read_text()

    def kill(self) -> None:
        """`kill -9`."""
        self.end(signal.SIGKILL)

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.process = None
        return code

    def identity(self, role: str, name: str, **more) -> DkmsClient:
        """A client with that certificate."""
        crt, key = certificate(self.pki, role, name)
        return DkmsClient(self.url, certificate=crt, key=key, authority=self.pki / "ca.crt", **more)

    def browser(self, role: str | None = None, name: str | None = None, pki: Path | None = None) -> httpx.Client:
        """A plain HTTP client, which does what ours would not do."""
        import ssl

        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        if role is not None and name is not None:
            context.load_cert_chain(*certificate(pki or self.pki, role, name))
        return httpx.Client(base_url=self.url, verify=context, trust_env=False)

    def audit(self) -> list[dict]:
        return [json.loads(line) for line in self.folder.log.read_text().splitlines()]

    def refusals(self) -> list[str]:
        return [line["code"] for line in self.audit() if line["event"] == "refused"]


def make_server(folder: Path, pki: Path, **policy: object) -> Server:
    """A new folder, with a policy for tests."""
    server = Server(folder, pki)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passphrase, "SCRYPT", {"n": 2**10, "r": 8, "p": 1})
        server.folder.create(PASSPHRASE)
    small = {"min_contributors": 2, "colluders": 0}  # for rounds of two
    many = dict.fromkeys(("requests_per_second", "burst", "lines_per_minute", "rounds_per_minute"), 10_000)
    settings = {"allow_insecure": True, **small, **many, **policy}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    server.folder.policy.write_text(text)
    return server


def failed_handshakes(server: Server, reason: str) -> int:
    return sum(line.get("code") == "handshake-failed" and reason in line["reason"] for line in server.audit())


def wait_for_handshake(server: Server, reason: str, *, more_than: int) -> None:
    """The handshake's line is written after the connection is gone."""
    for _ in range(200):
        if failed_handshakes(server, reason) > more_than:
            return
        time.sleep(0.05)
    raise AssertionError(f"no audit line of a failed handshake: {reason}")


@pytest.fixture(scope="session")
def pki(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    create_authority(folder)
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory, pki) -> Iterator[Server]:
    server = make_server(tmp_path_factory.mktemp("dkms") / "service", pki, decryptions_per_minute=10_000)
    server.start()
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.stderr()
