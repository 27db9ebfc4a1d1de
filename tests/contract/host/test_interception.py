"""TLS is between a client and Azure: a proxy that answers in Azure's place gets no byte of a request."""

import asyncio
import contextlib
import datetime
import gc
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_api.wire.host_config import BlobLocation, Credential
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.source.sdk import SdkHub
from eventconsumer_storage.account import StorageAccount, resolve_account
from eventconsumer_storage.async_blobs import AzureBlobStore, blob_service
from eventconsumer_storage.sync_blobs import SyncBlobStore

HUB, STORAGE = "shop.servicebus.windows.net", "shop.blob.core.windows.net"
KEY = "c2VjcmV0LWtleQ=="


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for both hosts of an authority that nobody trusts, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proxy")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HUB), x509.DNSName(STORAGE)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return files


class Interceptor:
    """A proxy that accepts CONNECT and speaks TLS itself, with its own certificate.

    Attributes:
        asked: Hosts and ports that clients asked for.
        read: Plain text of the clients.
    """

    def __init__(self, files: tuple[Path, Path]) -> None:
        self.asked: list[str] = []
        self.read = b""
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(*files)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(request.split()[1].decode())
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.drain()
            await writer.start_tls(self._tls)
            self.read += await reader.read(1000)
        writer.close()


@pytest.fixture
async def interceptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Interceptor]:
    """A proxy of the environment; its certificate is in the test's folder."""
    found = Interceptor(certificate(tmp_path))
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield found


def _access() -> HubAccess:
    text = f"Endpoint=sb://{HUB}/;SharedAccessKeyName=x;SharedAccessKey={KEY}"
    return HubAccess(HUB, "orders", "$Default", text, transport=HubTransport.AMQP_WEB_SOCKETS)


async def describe(hub: AmqpHub | SdkHub) -> None:
    try:
        await hub.describe()
    finally:
        await hub.close()


async def head(folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text(f"BlobEndpoint=https://{STORAGE};SharedAccessSignature=sig=x")
    credential = Credential(field="f", secret="s", key="k", connection_string_file=str(secret))
    location = BlobLocation(container="drained", prefix="", credential=credential)
    suffixes = ("core.windows.net",)
    assert resolve_account(location, "spec.sink", allow_insecure=False, suffixes=suffixes).secure
    async with blob_service(location, "spec.sink", False, suffixes) as service:
        await AzureBlobStore(service, "drained", lambda _, __: None).head("a")


async def sync_head(_: Path) -> None:
    def run() -> None:
        with SyncBlobStore(StorageAccount(f"https://{STORAGE}", "shop", key=KEY), "drained") as store:
            store.renew_lease("a", "6b1a1a51-5f1e-4b1e-8b0a-000000000001")  # is not repeated

    await asyncio.to_thread(run)


CLIENTS: dict[str, tuple[Callable[[Path], Awaitable[None]], str]] = {
    "hub": (lambda _: describe(AmqpHub(_access())), HUB),
    "hub, by the SDK": (lambda _: describe(SdkHub(_access())), HUB),
    "storage of hosts": (head, STORAGE),
    "storage of drivers": (sync_head, STORAGE),
}


# The SDK leaves the session of a failed connection to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in.*ClientSession:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_proxy_that_answers_in_azures_place_is_refused(
    client: str, interceptor: Interceptor, tmp_path: Path
) -> None:
    call, host = CLIENTS[client]
    with pytest.raises(EventConsumerError):
        await call(tmp_path)
    gc.collect()
    assert set(interceptor.asked) == {f"{host}:443"}
    assert interceptor.read == b""


async def test_it_reads_requests_if_its_authority_is_trusted(
    interceptor: Interceptor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with pytest.raises(EventConsumerError):
        await describe(AmqpHub(_access()))
    assert interceptor.read.startswith(b"GET /$servicebus/websocket")
