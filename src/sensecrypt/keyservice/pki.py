"""A certificate authority for development: one root, and certificates with a role and a name.

A certificate's subject has the role as organisational unit and the name as common name. Any authority that
issues such certificates can be used instead.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sensecrypt.errors import CertificateError
from sensecrypt.keyservice.names import NAME

ROLES = ("server", "admin", "aggregator", "client", "monitor")
CA_CERTIFICATE, CA_KEY = "ca.crt", "ca.key"
CA_DAYS = 3650
_SKEW = timedelta(minutes=5)  # other machines' clocks may be late by this


def create_authority(folder: Path, *, days: int = CA_DAYS) -> Path:
    """Create a root in `folder`: `ca.crt` is public, `ca.key` secret. Returns the certificate's path."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "SenseCrypt development CA")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(subject, subject, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CertificateError(str(folder), f"cannot be made ({error.strerror})", "check the path") from None
    _write_pair(folder / CA_CERTIFICATE, certificate, folder / CA_KEY, key)
    return folder / CA_CERTIFICATE


def issue(folder: Path, *, role: str, name: str, hosts: Sequence[str] = (), days: int = 90) -> tuple[Path, Path]:
    """Issue a certificate of one of the `ROLES`, with a key, in the folder of `create_authority`. Returns both paths.

    `hosts` are the names and addresses of a server.
    """
    if role not in ROLES:
        raise CertificateError("role", f"is {role!r}", f"choose one of {', '.join(ROLES)}")
    if not NAME.fullmatch(name):
        raise CertificateError("name", "has other characters", "use up to 63 letters, digits, dots and dashes")
    if role == "server" and not hosts:
        fix = "pass the server's names and addresses, such as --host localhost"
        raise CertificateError("--host", "is missing: clients check the server's name", fix)
    if role != "server" and hosts:
        raise CertificateError("--host", f"is for a server, not for role {role}", "leave it out")
    authority, authority_key = _read_authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    unit, common = (NameOID.ORGANIZATIONAL_UNIT_NAME, role), (NameOID.COMMON_NAME, name)
    subject = x509.Name([x509.NameAttribute(kind, text) for kind, text in (unit, common)])
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if role == "server" else ExtendedKeyUsageOID.CLIENT_AUTH
    signer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(subject, authority.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    _write_pair(paths[0], builder.sign(authority_key, hashes.SHA256()), paths[1], key)
    return paths


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    other = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    never = dict.fromkeys((*other, "encipher_only", "decipher_only"), False)
    signs = dict.fromkeys(("key_cert_sign", "crl_sign"), signs_certificates)
    return x509.KeyUsage(digital_signature=not signs_certificates, **signs, **never)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _read_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / CA_CERTIFICATE).read_bytes())
        key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        fix = "make one with: sensecrypt pki init"
        raise CertificateError(str(folder), "holds no certificate authority that can be read", fix) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(str(folder), "holds an authority of another kind", "issue with your own tools")
    return certificate, key


def _write_pair(path: Path, certificate: x509.Certificate, key_path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write both files, the key readable by its owner only; existing files are not replaced."""
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)
    for target, content, mode in ((key_path, key_pem, 0o600), (path, certificate_pem, 0o644)):
        try:
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
        except FileExistsError:
            raise CertificateError(str(target), "exists already", "choose another name, or move it away") from None
        except OSError as error:
            raise CertificateError(str(target), f"cannot be written ({error.strerror})", "check the path") from None
