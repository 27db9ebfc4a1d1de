"""The contract of a blob store, held by the fake of the unit tests and by the client of the real service."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from eventconsumer_spark.account import StorageAccount
from eventconsumer_spark.errors import StorageError
from eventconsumer_spark.store import AzureBlobStore, BlobStore
from tests.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.fakes.spark_store import FakeBlobStore

Put = Callable[[str, bytes], None]


@pytest.fixture(params=["fake", "azurite"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[BlobStore, Put]]:
    """A store, and a way to write to it from outside."""
    if request.param == "fake":
        fake = FakeBlobStore()
        yield fake, fake.put
        return
    server: AzuriteProcess = request.getfixturevalue("azurite")
    service: BlobServiceClient = request.getfixturevalue("service")
    container = service.create_container(server.container())

    def put(name: str, content: bytes) -> None:
        container.upload_blob(name, content, overwrite=True)

    with AzureBlobStore(StorageAccount(server.url, ACCOUNT, key=KEY), container.container_name) as real:
        yield real, put


def test_absent_blob_has_no_content_and_no_facts(store: tuple[BlobStore, Put]) -> None:
    blobs, _ = store
    assert blobs.read("a/b.json", 10) is None
    assert blobs.facts("a/b.json") is None


def test_read_stops_at_the_limit(store: tuple[BlobStore, Put]) -> None:
    blobs, put = store
    put("a", b"0123456789")
    assert blobs.read("a", 4) == b"0123"
    assert blobs.read("a", 100) == b"0123456789"


def test_etag_changes_with_every_write(store: tuple[BlobStore, Put]) -> None:
    blobs, put = store
    put("a", b"same")
    before = blobs.facts("a")
    put("a", b"same")
    after = blobs.facts("a")
    assert before is not None
    assert after is not None
    assert (before.size, after.size) == (4, 4)
    assert before.etag != after.etag


def test_create_never_overwrites(store: tuple[BlobStore, Put]) -> None:
    blobs, _ = store
    assert blobs.create("a", b"first")
    assert not blobs.create("a", b"second")
    assert blobs.read("a", 100) == b"first"


def test_refused_key_names_container_and_remedy_and_not_the_key(azurite: AzuriteProcess, service: Any) -> None:
    container = azurite.container()
    service.create_container(container)
    wrong = "d3Jvbmcgd3Jvbmcgd3Jvbmc="
    with AzureBlobStore(StorageAccount(azurite.url, ACCOUNT, key=wrong), container) as store:
        with pytest.raises(
            StorageError, match=rf"cannot look at x in container {container} .*check that the cred"
        ) as raised:
            store.facts("x")
        assert wrong not in str(raised.value)
