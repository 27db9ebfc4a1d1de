"""Signatures of a release: ECDSA over P-256 with SHA-256, which cosign and OpenSSL verify, and DSSE envelopes.

The same key and content always give the same signature (RFC 6979), so a signed release is reproducible, too.
"""

import base64
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from eventconsumer_release.errors import ReleaseError

PASSWORD_VARIABLE = "SIGNING_KEY_PASSWORD"  # the name of a variable, not a password
IN_TOTO = "application/vnd.in-toto+json"
_MAKE_ONE = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-256-cbc -out $HOME/release.key"
_OTHERS = 0o077


class Key:
    """A private key that signs releases."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        """Wrap a P-256 key; `read_key` reads one from a file."""
        self._private = private

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the public key (SubjectPublicKeyInfo, DER): 64 hex digits."""
        public = self._private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return sha256(public).hexdigest()

    def sign(self, content: bytes) -> str:
        """The signature of a content: ASN.1 DER in base64, the form of `cosign sign-blob`."""
        algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
        return base64.b64encode(self._private.sign(content, algorithm)).decode()

    def envelope(self, statement: dict[str, Any]) -> str:
        """A signed in-toto statement, as one line of JSON.

        Source: github.com/secure-systems-lab/dsse, envelope.md and protocol.md.
        """
        body = json.dumps(statement, sort_keys=True).encode()
        signature = self.sign(b"DSSEv1 %d %s %d %s" % (len(IN_TOTO), IN_TOTO.encode(), len(body), body))
        envelope = {
            "payloadType": IN_TOTO,
            "payload": base64.b64encode(body).decode(),
            "signatures": [{"keyid": "", "sig": signature}],
        }
        return json.dumps(envelope) + "\n"


def read_key(path: Path, password: str | None) -> Key:
    """Read a private key.

    Args:
        path: PEM (PKCS 8 or SEC 1).
        password: The password of an encrypted file.

    Raises:
        ReleaseError: The file is not a readable P-256 key, or other users can read it.
    """
    try:
        content = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise ReleaseError(
            f"The signing key {path} cannot be read: {error.strerror}. SIGNING_KEY names its file; create one with\n"
            f"  {_MAKE_ONE}"
        ) from None
    if mode & _OTHERS:
        raise ReleaseError(f"Other users can access the signing key {path}: chmod 600 {path}")
    if b"SIGSTORE PRIVATE KEY" in content or b"COSIGN PRIVATE KEY" in content:
        raise ReleaseError(
            f"The signing key {path} is in the format of cosign, which only cosign reads. Create a PEM key, and give "
            f"it to cosign by `cosign import-key-pair --key`, if cosign needs it:\n  {_MAKE_ONE}"
        )
    try:
        private = load_pem_private_key(content, password.encode() if password else None)
    except TypeError:
        state, remedy = ("is not", "unset") if password else ("is", "set")
        raise ReleaseError(f"The signing key {path} {state} encrypted: {remedy} {PASSWORD_VARIABLE}.") from None
    except ValueError:
        raise ReleaseError(
            f"The signing key {path} cannot be decoded: it is not a private key in PEM, or {PASSWORD_VARIABLE} is not "
            "its password."
        ) from None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(private.curve, ec.SECP256R1):
        raise ReleaseError(
            f"The signing key {path} is not an ECDSA key on the curve P-256, the default of cosign. Create one with\n"
            f"  {_MAKE_ONE}"
        )
    return Key(private)
