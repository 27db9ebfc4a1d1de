"""From a container's description and a connection string to an account; no message holds a value of the string."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.spec.endpoints import AZURE_STORAGE_SUFFIXES
from eventconsumer_api.wire.host_config import BlobLocation, Credential
from eventconsumer_storage.account import StorageAccount, resolve_account
from eventconsumer_storage.async_blobs import AzureBlobStore, blob_service
from eventconsumer_storage.credential import fingerprint

URL = "https://shop.blob.core.windows.net"
KEY = "c2VjcmV0LWtleQ=="
ACCOUNT = f"AccountName=shop;AccountKey={KEY}"
STORAGE = f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={KEY};EndpointSuffix=core.windows.net"
IDENTITY = Credential(field="spec.sink.authentication.workloadIdentity", client_id="00000000-1111")
MISSING, INVALID = Reason.SECRET_KEY_MISSING, Reason.CONNECTION_STRING_INVALID
INSECURE, DENIED, SPEC = Reason.INSECURE_ENDPOINT, Reason.ENDPOINT_NOT_ALLOWED, Reason.SPEC_INVALID


def sink(tmp_path: Path, text: str | None, **fields: Any) -> BlobLocation:
    """A sink whose Secret holds `text`, or is missing."""
    file = tmp_path / "secret"
    if text is not None:
        file.write_text(text)
    credential = Credential(
        field="spec.x", secret="shop-secret", key="connectionString", connection_string_file=str(file)
    )
    return BlobLocation(container="drained", prefix="p", credential=credential, **fields)


def resolve(
    location: BlobLocation, *, insecure: bool = False, suffixes: Any = AZURE_STORAGE_SUFFIXES
) -> StorageAccount:
    return resolve_account(location, "spec.sink", allow_insecure=insecure, suffixes=suffixes)


@pytest.mark.parametrize(
    ("text", "fields", "reason", "part"),
    [
        (None, {}, MISSING, "does not exist"),
        ("AccountName=a", {}, INVALID, "no part AccountKey"),
        ("AccountKey=%%%;AccountName=a", {}, INVALID, "not base64"),
        ("SharedAccessSignature=sig", {}, INVALID, "is not a connection string"),
        (STORAGE, {"storage_account_url": "https://other.net"}, INVALID, "make them equal"),
        (STORAGE, {"storage_api_version": "1999-01-01"}, SPEC, "2019-07-07"),
        (STORAGE.replace("https", "http"), {}, INSECURE, "plain endpoint"),
        ("UseDevelopmentStorage=true", {}, INSECURE, "plain endpoint"),
        (f"BlobEndpoint=https://collector.example;{ACCOUNT}", {}, DENIED, "collector.example"),
        (f"BlobEndpoint=https://127.0.0.1:10000/x;{ACCOUNT}", {}, INSECURE, "127.0.0.1"),
        (
            f"BlobEndpoint={URL};{ACCOUNT};BlobSecondaryEndpoint=https://collector.example",
            {},
            DENIED,
            "collector.example",
        ),
        (f"BlobEndpoint={URL.replace('shop', 'collector.example?')};{ACCOUNT}", {}, DENIED, "collector.example"),
        (f"BlobEndpoint=https://[shop/;{ACCOUNT}", {}, INVALID, "is not a connection string"),
        (STORAGE.replace("core.windows", "collector"), {}, DENIED, "shop.blob.collector.net"),
        (f"BlobEndpoint=https://relay.servicebus.windows.net;{ACCOUNT}", {}, DENIED, "relay.servicebus.windows.net"),
        ("BlobEndpoint=https://relay.servicebus.windows.net;SharedAccessSignature=sig=x", {}, DENIED, "relay.service"),
        (f"BlobEndpoint={URL}@collector.example;{ACCOUNT}", {}, DENIED, "collector.example"),
        (
            f"BlobEndpoint={URL};{ACCOUNT};BlobSecondaryEndpoint=https://relay.servicebus.windows.net",
            {},
            DENIED,
            "rela",
        ),
    ],
)
def test_bad_storage_credentials(
    tmp_path: Path, text: str | None, fields: dict[str, str], reason: Reason, part: str
) -> None:
    with pytest.raises(Blocked) as raised:
        resolve(sink(tmp_path, text, **fields))
    assert (raised.value.problem.reason, part in raised.value.problem.message) == (reason, True)
    assert KEY not in str(raised.value)


LOCAL = "http://shop.blob.svc.cluster.local:10000"


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        (ACCOUNT, URL),
        (f"DefaultEndpointsProtocol=http;{ACCOUNT};EndpointSuffix=example.org", "http://shop.blob.example.org"),
        (f"BlobEndpoint={LOCAL}/;{ACCOUNT}", LOCAL),
        (f"blobendpoint=http://127.0.0.1:10000/shop;{ACCOUNT.lower()}", "http://127.0.0.1:10000/shop"),
    ],
)
def test_a_connection_string_with_a_key(tmp_path: Path, text: str, endpoint: str) -> None:
    account = resolve(sink(tmp_path, text.replace(KEY.lower(), KEY)), insecure=True)
    assert (account.endpoint, account.name, account.key) == (endpoint, "shop", KEY)
    assert account.secure == endpoint.startswith("https")
    assert KEY not in repr(account)


def test_a_connection_string_with_a_shared_access_signature(tmp_path: Path) -> None:
    text = "BlobEndpoint=https://shop.blob.core.windows.net;SharedAccessSignature=?sv=2024&sig=abc%3D"
    location = sink(tmp_path, text)
    account = resolve(location)
    assert (account.sas, account.key, account.name) == ("sv=2024&sig=abc%3D", None, "shop")
    assert "abc" not in repr(account)
    assert (
        blob_service(location, "spec.sink", False, AZURE_STORAGE_SUFFIXES).url == "https://shop.blob.core.windows.net/"
    )


async def test_the_url_of_a_container_has_no_signature(tmp_path: Path) -> None:
    """It is in notices."""
    text = "BlobEndpoint=https://shop.blob.core.windows.net;SharedAccessSignature=?sv=2024&sig=abc%3D"
    service = blob_service(sink(tmp_path, text), "spec.sink", False, AZURE_STORAGE_SUFFIXES)
    store = AzureBlobStore(service, "drained", lambda *_: None)
    assert store.url == "https://shop.blob.core.windows.net/drained"
    await store.close()


def test_the_url_of_the_resource_is_that_of_the_connection_string(tmp_path: Path) -> None:
    url = URL.upper().replace("HTTPS", "https") + "/"
    assert resolve(sink(tmp_path, STORAGE, storage_account_url=url)).endpoint == URL


def test_the_administrators_domains_replace_azures(tmp_path: Path) -> None:
    text = STORAGE.replace("core.windows.net", "azure.example")
    account = resolve(sink(tmp_path, text), suffixes=("azure.example",))
    assert account.endpoint == "https://shop.blob.azure.example"
    with pytest.raises(Blocked, match=r"with an allowed suffix \(azure\.example\)"):
        resolve(sink(tmp_path, STORAGE), suffixes=("azure.example",))


def of_identity(url: str | None) -> BlobLocation:
    return BlobLocation(container="drained", prefix="p", credential=IDENTITY, storage_account_url=url)


@pytest.mark.parametrize(
    ("url", "suffixes", "part"),
    [
        (None, AZURE_STORAGE_SUFFIXES, "required with workloadIdentity"),
        ("http://shop.blob.core.windows.net", AZURE_STORAGE_SUFFIXES, "over https only"),
        ("https://collector.example", AZURE_STORAGE_SUFFIXES, "collector.example is not <account>.blob.<suffix>"),
        ("https://relay.servicebus.windows.net", AZURE_STORAGE_SUFFIXES, "administrator to extend storageSuffixes"),
        ("https://relay.servicebus.windows.net/shop", AZURE_STORAGE_SUFFIXES, "to extend storageSuffixes"),
        (f"{URL}/shop", AZURE_STORAGE_SUFFIXES, "to extend storageSuffixes"),
        (URL, (), "is not <account>.blob.<suffix>"),
        (URL, AZURE_STORAGE_SUFFIXES, "AZURE_TENANT_ID, AZURE_FEDERATED_TOKEN_FILE not set"),
    ],
)
def test_no_token_is_sent_to_other_hosts(
    url: str | None, suffixes: tuple[str, ...], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Blocked) as raised:
        resolve(of_identity(url), suffixes=suffixes)
    assert part in raised.value.problem.message


def test_workload_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("jwt")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    account = resolve(of_identity("https://shop.blob.core.windows.net/"))
    assert (account.name, account.client_id) == ("shop", "00000000-1111")
    assert (account.key, account.key_credential) == (None, None)
    assert account.endpoint == URL


def test_the_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    missing = fingerprint([sink(tmp_path, None).credential])
    written = fingerprint([sink(tmp_path, ACCOUNT).credential])
    assert len({missing, written, fingerprint([sink(tmp_path, STORAGE).credential])}) == 3


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="\r\n;="), min_size=12))
def test_no_message_holds_a_secret(secret: str) -> None:
    secret = "k3y" + secret.strip()
    texts = [
        secret,
        f"SharedAccessKey={secret}",
        f"Endpoint=sb://a;SharedAccessKey={secret}",
        f"AccountName=a;AccountKey={secret}",
        f"AccountKey={secret}",
        f"{secret};{secret}",
    ]
    with TemporaryDirectory() as folder:
        for text in texts:
            try:
                resolve(sink(Path(folder), text))
            except Blocked as error:
                assert secret not in str(error)
