"""Certificates of an authority outside the system's trust store, for TLS servers on this machine."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def authority(folder: Path, *names: str, days: int = 1) -> tuple[Path, Path]:
    """Create an authority; return its certificate, and a file with key and certificate of a server at 127.0.0.1.

    `names` are other names and addresses of the server. Its certificate expires after `days` days.
    """
    root, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    certificate = _signed("authority of a test", root, root).sign(root, hashes.SHA256())
    place = x509.SubjectAlternativeName([_place(each) for each in ("127.0.0.1", *names)])
    unsigned = _signed("server of a test", own, root, days).add_extension(place, critical=False)
    server = unsigned.sign(root, hashes.SHA256())
    trusted, identity = folder / "authority.pem", folder / "server.pem"
    trusted.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key = own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    identity.write_bytes(key + server.public_bytes(serialization.Encoding.PEM))
    return trusted, identity


def _place(name: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ip_address(name))
    return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey, days: int = 1
) -> x509.CertificateBuilder:
    """Return an unsigned certificate; if both keys are the same, that of the authority."""
    now, issuer = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=key is by, path_length=None), critical=True)
        # Python requires these extensions since 3.13
        .add_extension(_usage(signs=key is by), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
