"""The development authority, and who somebody is by certificate."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sensecrypt.errors import CertificateError, Refused
from sensecrypt.keyservice.http.certificates import Identity, check_pair, identity_of
from sensecrypt.keyservice.pki import create_authority, issue
from tests.keyservice.conftest import certificate


def der(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    """A certificate with that subject, of whatever authority: verifying it is TLS's business."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in attributes])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    return built.public_bytes(serialization.Encoding.DER)


UNIT, COMMON = NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME


@pytest.mark.parametrize("role", ["admin", "aggregator", "client", "monitor"])
def test_a_certificate_says_role_and_name(pki, role):
    crt, key = certificate(pki, role, f"some-{role}")
    loaded = x509.load_pem_x509_certificate(crt.read_bytes())
    assert identity_of(loaded.public_bytes(serialization.Encoding.DER)) == Identity(role, f"some-{role}")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    check_pair(crt, key, pki / "ca.crt")


@pytest.mark.parametrize(
    "subject",
    [
        [],
        [(COMMON, "a")],
        [(UNIT, "admin")],
        [(UNIT, "root"), (COMMON, "a")],
        [(UNIT, "admin"), (UNIT, "client"), (COMMON, "a")],
        [(UNIT, "client"), (COMMON, "a"), (COMMON, "b")],
        [(UNIT, "client"), (COMMON, "a\nb")],
    ],
)
def test_a_certificate_without_exactly_one_role_and_name_is_nobody(subject):
    with pytest.raises(Refused) as refusal:
        identity_of(der(*subject))
    assert refusal.value.code == "no-role"


def test_what_cannot_be_used_is_told_before_anything_is_tried(pki, tmp_path):
    crt, key = certificate(pki, "client", "early-bird")
    other = tmp_path / "other"
    create_authority(other)
    other_crt, other_key = certificate(other, "client", "early-bird")
    (tmp_path / "junk").write_text("junk")
    for files, problem in (
        ((crt, other_key, pki / "ca.crt"), "is not the key of"),
        ((other_crt, other_key, pki / "ca.crt"), "was not issued by"),
        ((tmp_path / "none", key, pki / "ca.crt"), "cannot be read"),
        ((crt, tmp_path / "none", pki / "ca.crt"), "is not the key of"),
        ((crt, key, tmp_path / "junk"), "is no certificate"),
    ):
        with pytest.raises(CertificateError, match=problem):
            check_pair(*files)


def test_nothing_is_overwritten_and_nonsense_is_refused(pki, tmp_path):
    certificate(pki, "client", "once")
    for call, problem in (
        (lambda: issue(pki, role="client", name="once"), "exists already"),
        (lambda: create_authority(pki), "exists already"),
        (lambda: issue(pki, role="client", name="../x"), "other characters"),
        (lambda: issue(pki, role="client", name="x", hosts=["localhost"]), "for a server"),
        (lambda: issue(pki, role="server", name="x"), "--host: is missing"),
        (lambda: issue(tmp_path, role="client", name="x"), "no certificate authority"),
    ):
        with pytest.raises(CertificateError, match=problem):
            call()
