"""Proves which client a Flower node is: a signature with the client's certificate, for one run and node.

Flower knows nodes by number, the key service knows clients by certificate. The aggregator draws a nonce, and the client
signs it together with run and node, so that no node can enrol as another client or replay a proof of another run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sensecrypt.errors import CertificateError, Rejected
from sensecrypt.keyservice.http.certificates import identity_of
from sensecrypt.protocol.envelope import parse, serialize

_TENSORS = {"certificate": (np.dtype(np.uint8), 1), "signature": (np.dtype(np.uint8), 1)}


@dataclass(frozen=True)
class Statement:
    """The statement that the client signs.

    Attributes:
        run: its name.
        node: Flower's number of the node.
        nonce: the aggregator's.
    """

    run: str
    node: int
    nonce: str

    def to_bytes(self) -> bytes:
        """An unambiguous encoding with a prefix of its own."""
        return "\x00".join(("sensecrypt enrolment v1", self.run, str(self.node), self.nonce)).encode()


def prove(statement: Statement, *, certificate: Path, key: Path) -> bytes:
    """The certificate and a signature by its key, as one message."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
        secret = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        raise CertificateError(str(certificate), "or its key cannot be read", "check the identity file") from None
    if isinstance(secret, ec.EllipticCurvePrivateKey):
        signature = secret.sign(statement.to_bytes(), ec.ECDSA(hashes.SHA256()))
    elif isinstance(secret, ed25519.Ed25519PrivateKey):
        signature = secret.sign(statement.to_bytes())
    else:
        raise CertificateError(str(key), "is a key of another kind", "use a certificate with an EC or Ed25519 key")
    encoded = loaded.public_bytes(serialization.Encoding.DER)
    tensors = {"certificate": np.frombuffer(encoded, np.uint8), "signature": np.frombuffer(signature, np.uint8)}
    return serialize("proof", {}, tensors)


def check_proof(data: bytes, statement: Statement, *, authority: Path) -> str:
    """The name of the client that signed, or `Rejected`."""
    _, arrays = parse(data, "proof", header={}, tensors=_TENSORS)
    encoded, signature = arrays["certificate"].tobytes(), arrays["signature"].tobytes()
    try:
        certificate = x509.load_der_x509_certificate(encoded)
        _require_issued(certificate, x509.load_pem_x509_certificates(authority.read_bytes()))
        key = certificate.public_key()
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, statement.to_bytes(), ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, statement.to_bytes())
        else:
            raise Rejected("a certificate with another kind of key", code="bad-proof")
    except (ValueError, TypeError, x509.InvalidVersion, UnsupportedAlgorithm, InvalidSignature):
        raise Rejected("a proof that does not hold: another authority, run or node", code="bad-proof") from None
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        raise Rejected("a certificate that is not valid today", code="bad-proof")
    identity = identity_of(encoded)
    if identity.role != "client":
        raise Rejected(f"a certificate of role {identity.role}", code="bad-proof")
    return identity.name


def _require_issued(certificate: x509.Certificate, authorities: list[x509.Certificate]) -> None:
    """Raise `InvalidSignature` unless one of the authorities has issued it; a file may have an old and a new one."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return
    raise InvalidSignature
