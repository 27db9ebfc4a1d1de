"""Credentials: what each kind of text means, and that no message holds a value of it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.conditions import Reason
from eventconsumer_api.endpoints import AZURE_SUFFIXES
from eventconsumer_api.host_config import BlobLocation, Credential, HubConfig
from eventconsumer_processor.credentials import blob_service, fingerprint, hub_access
from eventconsumer_processor.errors import Blocked

KEY = "c2VjcmV0LWtleQ=="
HUB = f"Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=Listen;SharedAccessKey={KEY}"
ACCOUNT = f"AccountName=shop;AccountKey={KEY}"
STORAGE = f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={KEY};EndpointSuffix=core.windows.net"


def credential(tmp_path: Path, text: str | None) -> Credential:
    """A credential whose Secret holds `text`, or is missing."""
    file = tmp_path / "secret"
    if text is not None:
        file.write_text(text)
    return Credential(field="spec.x", secret="shop-secret", key="connectionString", connection_string_file=str(file))


def hub(tmp_path: Path, text: str | None, **fields: Any) -> HubConfig:
    """A hub's configuration."""
    return HubConfig(consumer_group="$Default", credential=credential(tmp_path, text), **fields)


def sink(tmp_path: Path, text: str | None, **fields: Any) -> BlobLocation:
    """A sink's configuration."""
    return BlobLocation(container="drained", prefix="p", credential=credential(tmp_path, text), **fields)


def test_entity_path_or_the_spec_names_the_hub(tmp_path: Path) -> None:
    assert hub_access(hub(tmp_path, f"{HUB};EntityPath=orders\n"), False, AZURE_SUFFIXES).name == "orders"
    access = hub_access(hub(tmp_path, HUB, name="orders"), False, AZURE_SUFFIXES)
    assert (access.host, access.name, access.namespace) == (
        "shop.servicebus.windows.net",
        "orders",
        "shop.servicebus.windows.net",
    )
    assert KEY not in repr(access)


@pytest.mark.parametrize(
    ("text", "fields", "reason", "part"),
    [
        (None, {}, Reason.SECRET_KEY_MISSING, "Secret shop-secret has no key connectionString"),
        ("  ", {}, Reason.SECRET_KEY_MISSING, "key connectionString of Secret shop-secret is empty"),
        ("nonsense", {}, Reason.CONNECTION_STRING_INVALID, "part 1 is not of the form"),
        (HUB, {}, Reason.CONNECTION_STRING_INVALID, "add EntityPath=<hub>"),
        (
            f"{HUB};EntityPath=a",
            {"name": "b"},
            Reason.CONNECTION_STRING_INVALID,
            "but spec.eventHub.name is b",
        ),
        (
            HUB,
            {"fully_qualified_namespace": "other.net"},
            Reason.CONNECTION_STRING_INVALID,
            "make them equal",
        ),
        (f"{HUB};UseDevelopmentEmulator=true", {"name": "b"}, Reason.INSECURE_ENDPOINT, "without TLS"),
        (
            HUB.replace("shop.servicebus.windows.net", "collector.example"),
            {"name": "b"},
            Reason.ENDPOINT_NOT_ALLOWED,
            "key connectionString of Secret shop-secret names a host that is refused: collector.example is not under",
        ),
        (
            HUB.replace("shop.servicebus.windows.net", "10.0.0.1:5671"),
            {"name": "b"},
            Reason.INSECURE_ENDPOINT,
            "10.0.0.1",
        ),
        (
            HUB.replace("shop.", "collector.example?."),
            {"name": "b"},
            Reason.ENDPOINT_NOT_ALLOWED,
            "collector.example is not under",
        ),
    ],
)
def test_bad_hub_credentials(
    tmp_path: Path, text: str | None, fields: dict[str, str], reason: Reason, part: str
) -> None:
    with pytest.raises(Blocked) as raised:
        hub_access(hub(tmp_path, text, **fields), False, AZURE_SUFFIXES)
    assert raised.value.problem.reason == reason
    assert part in raised.value.problem.message
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "fields", "reason", "part"),
    [
        (None, {}, Reason.SECRET_KEY_MISSING, "has no key"),
        ("AccountName=a", {}, Reason.CONNECTION_STRING_INVALID, "no part AccountKey"),
        ("AccountKey=%%%;AccountName=a", {}, Reason.CONNECTION_STRING_INVALID, "not base64"),
        ("SharedAccessSignature=sig", {}, Reason.CONNECTION_STRING_INVALID, "is not a connection string"),
        (STORAGE, {"storage_account_url": "https://other.net"}, Reason.CONNECTION_STRING_INVALID, "make them equal"),
        (STORAGE.replace("https", "http"), {}, Reason.INSECURE_ENDPOINT, "plain endpoint"),
        ("UseDevelopmentStorage=true", {}, Reason.INSECURE_ENDPOINT, "plain endpoint"),
        (f"BlobEndpoint=https://collector.example;{ACCOUNT}", {}, Reason.ENDPOINT_NOT_ALLOWED, "collector.example"),
        (f"BlobEndpoint=https://127.0.0.1:10000/x;{ACCOUNT}", {}, Reason.INSECURE_ENDPOINT, "127.0.0.1"),
        (
            f"BlobEndpoint=https://shop.blob.core.windows.net;{ACCOUNT};BlobSecondaryEndpoint=https://collector.example",
            {},
            Reason.ENDPOINT_NOT_ALLOWED,
            "collector.example",
        ),
        (
            f"BlobEndpoint=https://collector.example?.blob.core.windows.net;{ACCOUNT}",
            {},
            Reason.ENDPOINT_NOT_ALLOWED,
            "collector.example",
        ),
        (
            STORAGE.replace("core.windows.net", "collector.example"),
            {},
            Reason.ENDPOINT_NOT_ALLOWED,
            "shop.blob.collector.example",
        ),
    ],
)
def test_bad_storage_credentials(
    tmp_path: Path, text: str | None, fields: dict[str, str], reason: Reason, part: str
) -> None:
    with pytest.raises(Blocked) as raised:
        blob_service(sink(tmp_path, text, **fields), "spec.sink", False, AZURE_SUFFIXES)
    assert (raised.value.problem.reason, part in raised.value.problem.message) == (reason, True)


def test_good_storage_credentials(tmp_path: Path) -> None:
    url = "https://shop.blob.core.windows.net"
    assert (
        blob_service(sink(tmp_path, STORAGE, storage_account_url=url + "/"), "spec.sink", False, AZURE_SUFFIXES).url
        == url + "/"
    )


def test_the_administrators_domains_replace_azures(tmp_path: Path) -> None:
    text = STORAGE.replace("core.windows.net", "azure.example")
    client = blob_service(sink(tmp_path, text), "spec.sink", False, ("blob.azure.example",))
    assert client.url == "https://shop.blob.azure.example/"
    with pytest.raises(Blocked, match=r"not under one of the allowed domains \(blob\.azure\.example\)"):
        blob_service(sink(tmp_path, STORAGE), "spec.sink", False, ("blob.azure.example",))
    config = hub(tmp_path, HUB.replace("servicebus.windows.net", "hubs.azure.example"), name="orders")
    assert hub_access(config, False, ("azure.example",)).namespace == "shop.hubs.azure.example"


def test_no_token_is_sent_to_a_host_that_is_not_allowed(tmp_path: Path) -> None:
    identity = Credential(field="spec.x", client_id="id")
    account = BlobLocation(
        container="drained", prefix="p", credential=identity, storage_account_url="https://collector.example"
    )
    with pytest.raises(Blocked) as raised:
        blob_service(account, "spec.sink", False, AZURE_SUFFIXES)
    assert raised.value.problem.field == "spec.sink.storageAccountUrl"
    config = HubConfig(
        fully_qualified_namespace="collector.example", name="orders", consumer_group="$Default", credential=identity
    )
    with pytest.raises(Blocked, match=r"collector\.example is not under"):
        hub_access(config, False, AZURE_SUFFIXES)


def test_workload_identity_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    config = HubConfig(
        fully_qualified_namespace="shop.servicebus.windows.net",
        name="orders",
        consumer_group="$Default",
        credential=Credential(field="spec.eventHub.authentication.workloadIdentity", client_id="id"),
    )
    with pytest.raises(Blocked, match="AZURE_TENANT_ID, AZURE_FEDERATED_TOKEN_FILE not set"):
        hub_access(config, False, AZURE_SUFFIXES)
    token = tmp_path / "token"
    token.write_text("jwt")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(token))
    access = hub_access(config, False, AZURE_SUFFIXES)
    assert access.identity is not None and access.connection_string is None


def test_the_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    missing = fingerprint([credential(tmp_path, None)])
    written = fingerprint([credential(tmp_path, HUB)])
    assert len({missing, written, fingerprint([credential(tmp_path, STORAGE)])}) == 3


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
            for attempt in (
                lambda text=text: hub_access(hub(Path(folder), text, name="h"), False, AZURE_SUFFIXES),
                lambda text=text: blob_service(sink(Path(folder), text), "spec.sink", False, AZURE_SUFFIXES),
            ):
                try:
                    attempt()
                except Blocked as error:
                    assert secret not in str(error)
