"""The keys of a local cluster: its own authority, what that signs, and the key of service account tokens.

Each cluster has an authority of its own, so the credentials of one are refused by every other.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(minutes=5)
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADMIN = "admin"
ADMIN_USER = "rehearsal:admin"
ADMINISTRATORS = "system:masters"
"""The group that may do everything. Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Pki:
    """The files of a cluster's keys, all in one directory that only its owner may read."""

    directory: Path

    @property
    def authority(self) -> Path:
        """Return the certificate of the cluster's authority."""
        return self.directory / "ca.crt"

    @property
    def service_account_key(self) -> Path:
        """Return the private key that signs service account tokens."""
        return self.directory / "service-account.key"

    def certificate(self, name: str) -> Path:
        """Return the certificate of `server`, `kubelet-client` or `admin`."""
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the private key of `ca`, `server`, `kubelet-client` or `admin`."""
        return self.directory / f"{name}.key"


class Authority:
    """An authority that signs certificates."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls) -> Authority:
        """Make a new one."""
        key = _new_key()
        name = _subject("rehearsal")
        certificate = (
            _builder(name, key.public_key())
            .issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def read(cls, pki: Pki) -> Authority:
        """Read the one of a cluster."""
        key = serialization.load_pem_private_key(pki.key("ca").read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{pki.key('ca')}: not a key of this program's making")
        return cls(key, x509.load_pem_x509_certificate(pki.authority.read_bytes()))

    @property
    def pair(self) -> KeyPair:
        """Return its certificate and key."""
        return KeyPair(_pem(self._certificate), _private_pem(self._key))

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Sign a client certificate: the API server takes its common name for the user and its organizations for groups."""
        key = _new_key()
        builder = _builder(_subject(user, groups), key.public_key())
        return self._sign(builder, key, ExtendedKeyUsageOID.CLIENT_AUTH)

    def server(self, addresses: Sequence[str]) -> KeyPair:
        """Sign a certificate for loopback, the names of the API server inside a cluster and `addresses`."""
        key = _new_key()
        ips = [ipaddress.ip_address(address) for address in ("127.0.0.1", *addresses)]
        names = x509.SubjectAlternativeName([*map(x509.DNSName, _NAMES), *map(x509.IPAddress, ips)])
        builder = _builder(_subject("rehearsal-server"), key.public_key()).add_extension(names, critical=False)
        return self._sign(builder, key, ExtendedKeyUsageOID.SERVER_AUTH)

    def _sign(
        self, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, *purposes: x509.ObjectIdentifier
    ) -> KeyPair:
        certificate = (
            builder.issuer_name(self._certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            # Python 3.13 and newer refuse a certificate without it.
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return KeyPair(_pem(certificate), _private_pem(key))


def write_pki(directory: Path, *, service_address: str) -> Pki:
    """Make the keys of a new cluster in `directory`; `service_address` is that of its `kubernetes` service."""
    directory.mkdir(mode=0o700, parents=True)
    pki = Pki(directory)
    authority = Authority.create()
    pairs = {
        "ca": authority.pair,
        "server": authority.server([service_address]),
        "kubelet-client": authority.client("kube-apiserver-kubelet-client"),
        ADMIN: authority.client(ADMIN_USER, [ADMINISTRATORS]),
    }
    for name, pair in pairs.items():
        pki.certificate(name).write_bytes(pair.certificate)
        _write_secret(pki.key(name), pair.key)
    _write_secret(pki.service_account_key, _private_pem(_new_key()))
    return pki


def _new_key() -> ec.EllipticCurvePrivateKey:
    # A thousand times faster to make than an RSA key of the same strength.
    return ec.generate_private_key(ec.SECP256R1())


def _subject(user: str, groups: Sequence[str] = ()) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write_secret(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
