"""The operator's key pair (Ed25519), which signs operator messages.

The private key comes from a mounted file, so it survives restarts and the operator reads no Secret through the API.
Without a file it is generated at each start: hosts get the new public key from their ConfigMap about a minute after a
restart, and until then balance by leases alone.
"""

import base64
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key


class FleetKeyError(Exception):
    """The key file cannot be used; the message names the file and the remedy, never its content."""


class FleetKey:
    """A key pair."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        """Sign with this key."""
        self._private = private
        public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.public_pem = public.decode()

    @classmethod
    def load(cls, file: Path | None) -> "FleetKey":
        """Read the private key (PEM, PKCS 8, not encrypted), or generate one without a file.

        Raises:
            FleetKeyError: The file cannot be read, or has other content.
        """
        if file is None:
            return cls(Ed25519PrivateKey.generate())
        remedy = "use an Ed25519 private key, as `openssl genpkey -algorithm ed25519` generates it"
        try:
            private = load_pem_private_key(file.read_bytes(), password=None)
        except OSError as error:
            raise FleetKeyError(f"--fleet-key-file {file}: {error.strerror}: {remedy}") from None
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise FleetKeyError(f"--fleet-key-file {file} holds no private key in PEM: {remedy}") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise FleetKeyError(f"--fleet-key-file {file} holds a key of another kind: {remedy}")
        return cls(private)

    def sign(self, body: bytes) -> str:
        """The signature of a body, base64."""
        return base64.b64encode(self._private.sign(body)).decode()
