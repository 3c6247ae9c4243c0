"""Creates a fleet's files: certificates, node keys, a key service; and those that each start writes again."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sensecrypt.errors import ServiceError
from sensecrypt.files import write_whole
from sensecrypt.keyservice.http.certificates import check_pair
from sensecrypt.keyservice.http.folder import Folder
from sensecrypt.keyservice.pki import create_authority, issue
from sensecrypt.lab.fleet.folder import AGGREGATOR, HOST, Description, FleetFolder

ADMIN = "admin"
_POLICY = """\
# For trying out on one machine; `sensecrypt dkms init` writes the limits to start from otherwise.
min_contributors = {least}
colluders = {colluders}
allow_insecure = true  # a run may ask for the profile insecure-test
release_to = ["aggregator"]  # apps with sensecrypt.flower register their own runs
"""


def _policy(clients: int) -> str:
    """The key service's limits; with two clients each can subtract its own model, so colluders must be 0."""
    return _POLICY.format(least=min(3, clients), colluders=int(clients > 2))


def make_fleet(folder: FleetFolder, description: Description) -> None:
    """Create the folder, completely or not at all."""
    folder.refuse_another()
    target = folder.path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ServiceError(str(target), f"cannot be made ({error.strerror})", "check the path") from None
    try:
        _fill(FleetFolder(partial), description)
        partial.rename(target)
    except OSError as error:
        raise ServiceError(str(target), f"cannot be made ({error.strerror})", "choose another folder") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_addresses(folder: FleetFolder, description: Description) -> None:
    """Write the addresses into identity files and Flower's configuration."""
    for name in (AGGREGATOR, *description.members):
        path = folder.identity(name)
        kept = path.read_text(encoding="utf-8") if path.exists() else _identity(name, description.clients)
        lines = [
            line for line in kept.splitlines() if not line.startswith("url = ")
        ]  # kept, as they may be edited by hand
        write_whole(path, "\n".join([f"url = {quote(description.dkms_url)}", *lines, ""]).encode())
    trust = f"root-certificates = {quote(str(folder.pki / 'ca.crt'))}" if description.tls else "insecure = true"
    text = f'[superlink]\ndefault = "deploy"\n\n[superlink.deploy]\naddress = "{description.superlink}"\n{trust}\n'
    write_whole(folder.flower_home / "config.toml", text.encode())


def check_certificates(folder: FleetFolder, description: Description) -> None:
    """Raise unless every certificate can be used today."""
    for name in (*_servers(description), ADMIN, AGGREGATOR, *description.members):
        check_pair(*folder.certificate(name))


def check_identities(folder: FleetFolder, description: Description) -> None:
    """Raise unless every identity file can be read and its conditions are consistent."""
    from sensecrypt.client.identity import read_identity

    for name in (AGGREGATOR, *description.members):
        read_identity(folder.identity(name))


def quote(text: str) -> str:
    """A string as TOML writes it."""
    return json.dumps(text, ensure_ascii=False)


def _fill(folder: FleetFolder, description: Description) -> None:
    create_authority(folder.pki)
    for name in _servers(description):
        issue(folder.pki, role="server", name=name, hosts=(HOST, "localhost"))
    issue(folder.pki, role="admin", name=ADMIN)
    issue(folder.pki, role="aggregator", name=AGGREGATOR)
    for name in description.members:
        issue(folder.pki, role="client", name=name)
    for name in (AGGREGATOR, *description.members):
        (folder.identity(name).parent / "state").mkdir(parents=True)
    for node in description.nodes:
        folder.node_home(node).mkdir()
    for place in (folder.flower_home, folder.database.parent, folder.log("dkms").parent, folder.path / "app"):
        place.mkdir()
    phrase = secrets.token_urlsafe(24)
    _write_private(folder.passphrase, f"{phrase}\n".encode())
    Folder(folder.dkms).create(phrase)
    Folder(folder.dkms).policy.write_text(_policy(description.clients), encoding="utf-8")
    if description.tls:
        for node in description.nodes:
            _make_node_key(folder.node_key(node))
    folder.write(description)


def _servers(description: Description) -> list[str]:
    return ["dkms", "superlink"] if description.tls else ["dkms"]


def _identity(name: str, clients: int) -> str:
    pki = "../../pki"
    two = (
        "least_members = 2  # with two clients each can subtract its own model\nleast_contributors = 2\ncolluders = 0\n"
    )
    return (
        f'certificate = "{pki}/{name}.crt"\nkey = "{pki}/{name}.key"\nauthority = "{pki}/ca.crt"\n'
        'state = "state"\n'
        "tell_accuracy = true  # all clients are on this machine; for real ones see docs/deployment.md\n"
        "release_to_aggregator = true  # for apps with sensecrypt.flower, whose ServerApp has the model\n"
    ) + (two if clients == 2 and name != AGGREGATOR else "")


def _make_node_key(path: Path) -> None:
    """Write an ECDSA key on P-384 in OpenSSH's format, which Flower reads."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    openssh = serialization.PrivateFormat.OpenSSH
    private = key.private_bytes(serialization.Encoding.PEM, openssh, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    _write_private(path, private)
    path.with_name(f"{path.name}.pub").write_bytes(public)


def _write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
