"""Keys of a release and their signatures, as the cryptography library itself verifies them."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.signing import Key, read_key

PRIVATE = ec.generate_private_key(ec.SECP256R1())
STATEMENT = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "é"}]}


def written(folder: Path, private: object = PRIVATE, protection: KeySerializationEncryption | None = None) -> Path:
    path = folder / "release.key"
    form = PrivateFormat.PKCS8
    path.write_bytes(private.private_bytes(Encoding.PEM, form, protection or NoEncryption()))  # type: ignore[attr-defined]
    path.chmod(0o600)
    return path


def verify(signature: str, content: bytes) -> None:
    PRIVATE.public_key().verify(base64.b64decode(signature), content, ec.ECDSA(hashes.SHA256()))


def test_a_signature_is_of_its_content_and_always_the_same() -> None:
    key = Key(PRIVATE)
    signature = key.sign(b"content")
    verify(signature, b"content")
    with pytest.raises(InvalidSignature):
        verify(signature, b"other content")
    assert key.sign(b"content") == signature


def test_the_signature_of_an_envelope_covers_the_statement_and_its_type() -> None:
    envelope = json.loads(Key(PRIVATE).envelope(STATEMENT))
    body = base64.b64decode(envelope["payload"])
    assert json.loads(body) == STATEMENT
    (signature,) = envelope["signatures"]
    # The encoding of the protocol's description, with its lengths in bytes.
    verify(signature["sig"], b"DSSEv1 28 application/vnd.in-toto+json " + str(len(body)).encode() + b" " + body)


def test_an_encrypted_key_is_read_with_its_password(tmp_path: Path) -> None:
    path = written(tmp_path, protection=BestAvailableEncryption(b"secret"))
    assert read_key(path, "secret").fingerprint == Key(PRIVATE).fingerprint
    with pytest.raises(ReleaseError, match="is encrypted: set SIGNING_KEY_PASSWORD"):
        read_key(path, None)
    with pytest.raises(ReleaseError, match="SIGNING_KEY_PASSWORD is not its password"):
        read_key(path, "wrong")
    with pytest.raises(ReleaseError, match="is not encrypted: unset SIGNING_KEY_PASSWORD"):
        read_key(written(tmp_path), "secret")


@pytest.mark.parametrize(
    "private", [ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()], ids=["P-384", "Ed25519"]
)
def test_keys_of_other_kinds_are_refused(tmp_path: Path, private: object) -> None:
    with pytest.raises(ReleaseError, match=r"is not an ECDSA key on the curve P-256(.|\n)*openssl genpkey"):
        read_key(written(tmp_path, private), None)


def test_files_that_hold_no_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"No such file(.|\n)*openssl genpkey"):
        read_key(tmp_path / "none", None)
    path = written(tmp_path)
    path.write_text("no key")
    with pytest.raises(ReleaseError, match="it is not a private key in PEM"):
        read_key(path, None)
    path.write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
    with pytest.raises(ReleaseError, match="in the format of cosign"):
        read_key(path, None)


def test_a_key_that_other_users_can_read_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.chmod(0o640)
    with pytest.raises(ReleaseError, match=f"Other users can access the signing key.*chmod 600 {path}"):
        read_key(path, None)
