"""From the sink's description and a connection string to an account."""

import pytest

from eventconsumer_api.host_config import BlobLocation, Credential
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.storage.account import resolve_account

FIELD = "spec.sink.authentication.connectionStringSecretRef"
SECRET = Credential(field=FIELD, secret="orders-storage", key="connectionString", connection_string_file="/x")
IDENTITY = Credential(field="spec.sink.authentication.workloadIdentity", client_id="00000000-1111")


def sink(url: str | None = None, credential: Credential = SECRET) -> BlobLocation:
    return BlobLocation(storage_account_url=url, container="drained", prefix="shop/orders", credential=credential)


@pytest.mark.parametrize(
    ("text", "endpoint", "name"),
    [
        ("AccountName=shop;AccountKey=a2V5", "https://shop.blob.core.windows.net", "shop"),
        (
            "DefaultEndpointsProtocol=http;AccountName=shop;AccountKey=a2V5;EndpointSuffix=example.org",
            "http://shop.blob.example.org",
            "shop",
        ),
        (
            "BlobEndpoint=http://shop.blob.svc.cluster.local:10000/;AccountKey=a2V5",
            "http://shop.blob.svc.cluster.local:10000",
            "shop",
        ),
        ("blobendpoint=http://127.0.0.1:10000/shop;accountkey=a2V5", "http://127.0.0.1:10000/shop", "shop"),
    ],
)
def test_connection_string_with_a_key(text: str, endpoint: str, name: str) -> None:
    account = resolve_account(sink(), text)
    assert (account.endpoint, account.name, account.key) == (endpoint, name, "a2V5")
    assert account.secure == endpoint.startswith("https")
    assert "a2V5" not in repr(account)


def test_connection_string_with_a_shared_access_signature() -> None:
    text = "BlobEndpoint=https://shop.blob.core.windows.net;SharedAccessSignature=?sv=2024&sig=abc%3D"
    account = resolve_account(sink(), text)
    assert (account.sas, account.key) == ("sv=2024&sig=abc%3D", None)
    assert "abc" not in repr(account)


def test_url_of_the_resource_wins() -> None:
    account = resolve_account(sink("https://shop.privatelink.example.org/"), "AccountName=shop;AccountKey=a2V5")
    assert account.endpoint == "https://shop.privatelink.example.org"


def test_workload_identity() -> None:
    account = resolve_account(sink("https://shop.blob.core.windows.net", IDENTITY), None)
    assert (account.name, account.client_id, account.key) == ("shop", "00000000-1111", None)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("hunter2", "is not a storage connection string"),
        ("AccountName=shop", "neither AccountKey nor SharedAccessSignature"),
        ("AccountKey=a2V5", "neither BlobEndpoint nor AccountName"),
    ],
)
def test_bad_connection_string_names_field_secret_and_remedy(text: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        resolve_account(sink(), text)
    message = str(raised.value)
    assert FIELD in message
    assert "'orders-storage'" in message
    assert remedy in message
    assert "hunter2" not in message
    assert "a2V5" not in message


def test_workload_identity_without_url() -> None:
    with pytest.raises(ConfigurationError, match=r"sink\.storageAccountUrl"):
        resolve_account(sink(None, IDENTITY), None)
