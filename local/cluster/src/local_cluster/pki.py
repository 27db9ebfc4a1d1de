"""Keys, certificates and kubeconfigs of one cluster, created in memory and written once.

Two authorities: one that the API server, the kubelet and all clients trust, and one only for etcd, so that a cluster
certificate (such as the kubelet's) does not give access to etcd. All keys are ECDSA P-256 and are removed with the
cluster's `live` directory.
"""

import base64
import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local_cluster.layout import CLUSTER_DOMAIN, NODE_NAME, Network

LIFETIME = datetime.timedelta(days=365)

# file name: (common name, organization). The names are Kubernetes' own: RBAC and the node authorizer know them.
CLIENTS = {
    "admin": ("admin", "system:masters"),
    "apiserver-kubelet-client": ("apiserver-kubelet-client", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", None),
    "kube-scheduler": ("system:kube-scheduler", None),
    "kube-proxy": ("system:kube-proxy", None),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "coredns": ("eventconsumer:coredns", None),
}


@dataclass(frozen=True)
class Pair:
    """A private key and its certificate, both PEM."""

    key: bytes
    certificate: bytes


class Authority:
    """A certificate authority that exists to sign during one call of `write_pki`."""

    def __init__(self, name: str, now: datetime.datetime) -> None:
        """Make a self-signed authority.

        Args:
            name: Its common name.
            now: Start of validity of everything it signs.
        """
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name, None)
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate, PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        common_name: str,
        organization: str | None = None,
        hosts: Sequence[str] = (),
        addresses: Sequence[IPv4Address] = (),
    ) -> Pair:
        """A client certificate; with hosts or addresses, also a server certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._builder(_name(common_name, organization), key.public_key())
        if hosts or addresses:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
            names += [x509.IPAddress(address) for address in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority_key, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(_pem(key), certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - datetime.timedelta(minutes=5))  # clocks that are set back a little
            .not_valid_after(self._now + LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        )


def write_pki(folder: Path, network: Network, now: datetime.datetime) -> None:
    """Make all keys and certificates of a new cluster.

    Args:
        folder: Created with mode 0700; receives `<name>.key`, `<name>.crt` and `<client>.kubeconfig`.
        network: The addresses in the server certificates.
        now: Start of validity.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    cluster, etcd = Authority("eventconsumer-cluster", now), Authority("eventconsumer-etcd", now)
    _write(folder / "ca.crt", cluster.certificate)
    _write(folder / "etcd-ca.crt", etcd.certificate)

    service = [f"kubernetes{suffix}" for suffix in ("", ".default", ".default.svc", f".default.svc.{CLUSTER_DOMAIN}")]
    serving = cluster.issue(
        "serving", hosts=[*service, NODE_NAME, "localhost"], addresses=[network.node, network.api_service]
    )
    _write_pair(folder, "serving", serving)
    _write_pair(folder, "etcd", etcd.issue("etcd", addresses=[network.node]))
    _write_pair(folder, "apiserver-etcd-client", etcd.issue("apiserver"))
    for name, (common_name, organization) in CLIENTS.items():
        pair = cluster.issue(common_name, organization)
        _write_pair(folder, name, pair)
        config = kubeconfig(network.api_url, cluster.certificate, pair, user=common_name)
        _write(folder / f"{name}.kubeconfig", config.encode())

    signer = ec.generate_private_key(ec.SECP256R1())
    public = signer.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(folder / "service-account.key", _pem(signer))
    _write(folder / "service-account.pub", public)


def kubeconfig(server: str, authority: bytes, client: Pair, user: str) -> str:
    """A kubeconfig with everything inside, so that it can be copied on its own."""

    def embedded(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    name = "eventconsumer-local"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": embedded(authority)}}],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": embedded(client.certificate),
                    "client-key-data": embedded(client.key),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _name(common_name: str, organization: str | None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_pair(folder: Path, name: str, pair: Pair) -> None:
    _write(folder / f"{name}.key", pair.key)
    _write(folder / f"{name}.crt", pair.certificate)


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
