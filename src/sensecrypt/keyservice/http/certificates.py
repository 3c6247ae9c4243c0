"""Identities in certificates, and checks of certificate files that explain why a handshake would fail."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from sensecrypt.errors import CertificateError, Refused

ROLES = ("admin", "aggregator", "client", "monitor")


@dataclass(frozen=True)
class Identity:
    """The sender of a request."""

    role: str  # one of `ROLES`
    name: str  # unique within the certificate authority

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


@lru_cache(maxsize=1024)
def identity_of(certificate: bytes) -> Identity:
    """The identity in a verified certificate: its organisational unit is the role, its common name the name."""
    try:
        subject = x509.load_der_x509_certificate(certificate).subject
        [role] = subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
        [name] = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        found = Identity(str(role.value), str(name.value))
    except ValueError:
        found = Identity("", "")
    if found.role not in ROLES or not 0 < len(found.name) <= 64 or not found.name.isprintable():
        fix = f"ask for a certificate with one OU of {', '.join(ROLES)} and one CN"
        raise Refused("no-role", "the certificate names no role", fix)
    return found


def check_pair(certificate: Path, key: Path, authority: Path) -> None:
    """Raise `CertificateError` unless the three files belong together and the certificate is valid today."""
    loaded, root = _load(certificate), _load(authority)
    now = datetime.now(UTC)
    if loaded.not_valid_after_utc < now:
        problem = f"expired on {loaded.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        raise CertificateError(str(certificate), problem, "issue a new one: sensecrypt pki issue")
    if loaded.not_valid_before_utc > now:
        problem = f"is not valid before {loaded.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, and this clock says "
        raise CertificateError(str(certificate), f"{problem}{now:%Y-%m-%d %H:%M}", "set this machine's clock")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError):
        fix = "pass the key that was issued with the certificate, unencrypted"
        raise CertificateError(str(key), f"is not the key of {certificate}", fix) from None
    if loaded.issuer == root.subject:  # else there may be an intermediate authority: the handshake decides
        try:
            loaded.verify_directly_issued_by(root)
        except (ValueError, TypeError, InvalidSignature):
            fix = "pass the authority that issued it"
            raise CertificateError(str(certificate), f"was not issued by {authority}", fix) from None


def _load(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise CertificateError(str(path), f"cannot be read ({error.strerror})", "check the path") from None
    except ValueError:
        raise CertificateError(str(path), "is no certificate in PEM", "pass a .crt file") from None
