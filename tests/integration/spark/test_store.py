"""The contract of a blob store, held by the fake of the unit tests and by the client of the real service."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    Services,
    generate_account_sas,
)

from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.storage.abfs import AbfsFolder
from eventconsumer_spark.storage.paths import Site
from eventconsumer_spark.storage.store import ClaimStore, SinkContainer
from eventconsumer_storage.account import StorageAccount
from eventconsumer_storage.errors import StorageError
from tests.integration.spark.drained import host_name
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.fakes.spark_store import FakeSparkBlobStore
from tests.support.faultactions import Amend, Fail
from tests.support.faultproxy import Action, FaultProxy, Match
from tests.support.waiting import HANG_SECONDS

MINE, THEIRS = "6b1a1a51-5f1e-4b1e-8b0a-000000000001", "6b1a1a51-5f1e-4b1e-8b0a-000000000002"
Put = Callable[[str, bytes], None]


@pytest.fixture(params=["fake", "azurite"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[ClaimStore, Put]]:
    """A store, and a way to write to it from outside."""
    if request.param == "fake":
        fake = FakeSparkBlobStore(time.monotonic)
        yield fake, fake.put
        return
    server: AzuriteProcess = request.getfixturevalue("azurite")
    service: BlobServiceClient = request.getfixturevalue("service")
    container = service.create_container(server.container())

    def put(name: str, content: bytes) -> None:
        container.upload_blob(name, content, overwrite=True)

    with SinkContainer(StorageAccount(server.url, ACCOUNT, key=KEY), container.container_name) as real:
        yield real, put


def test_absent_blob_has_no_content_and_no_facts(store: tuple[ClaimStore, Put]) -> None:
    blobs, _ = store
    assert blobs.read("a/b.json", 10) is None
    assert blobs.facts("a/b.json") is None


def test_read_stops_at_the_limit(store: tuple[ClaimStore, Put]) -> None:
    blobs, put = store
    put("a", b"0123456789")
    assert blobs.read("a", 4) == b"0123"
    assert blobs.read("a", 100) == b"0123456789"


def test_etag_changes_with_every_write(store: tuple[ClaimStore, Put]) -> None:
    blobs, put = store
    put("a", b"same")
    before = blobs.facts("a")
    put("a", b"same")
    after = blobs.facts("a")
    assert before is not None
    assert after is not None
    assert (before.size, after.size) == (4, 4)
    assert before.etag != after.etag


def test_create_never_overwrites(store: tuple[ClaimStore, Put]) -> None:
    blobs, _ = store
    assert blobs.create("a", b"first")
    assert not blobs.create("a", b"second")
    assert blobs.read("a", 100) == b"first"


def test_replace_asks_for_version_and_lease(store: tuple[ClaimStore, Put]) -> None:
    blobs, put = store
    put("a", b"first")
    before = blobs.load("a", 100)
    assert before is not None
    assert before.content == b"first"
    assert not blobs.replace("a", b"second", before.etag, MINE)  # No lease is held.
    assert blobs.acquire("a", 15, MINE)
    assert not blobs.replace("a", b"second", before.etag, THEIRS)
    assert blobs.replace("a", b"second", before.etag, MINE)
    assert not blobs.replace("a", b"third", before.etag, MINE)
    assert blobs.read("a", 100) == b"second"
    assert not blobs.replace("b", b"new", before.etag, MINE)
    assert blobs.read("b", 100) is None


def test_lease_has_one_holder(store: tuple[ClaimStore, Put]) -> None:
    blobs, put = store
    assert not blobs.acquire("a", 15, MINE)  # There is no blob.
    put("a", b"x")
    assert blobs.acquire("a", 15, MINE)
    assert blobs.acquire("a", 15, MINE)  # The answer of the first request was lost.
    assert not blobs.acquire("a", 15, THEIRS)
    assert blobs.renew("a", MINE)
    assert not blobs.renew("a", THEIRS)
    blobs.release("a", THEIRS)
    assert not blobs.acquire("a", 15, THEIRS)
    blobs.release("a", MINE)
    assert blobs.acquire("a", 15, THEIRS)
    assert not blobs.renew("a", MINE)


def test_lease_that_is_broken_off_ends_a_little_later(store: tuple[ClaimStore, Put]) -> None:
    blobs, put = store
    put("a", b"x")
    blobs.break_off("a", 1)  # Nobody's.
    assert blobs.acquire("a", 15, MINE)
    blobs.break_off("a", 1)
    assert not blobs.renew("a", MINE)
    assert not blobs.acquire("a", 15, THEIRS)
    deadline = time.monotonic() + HANG_SECONDS
    while not blobs.acquire("a", 15, THEIRS):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("action", "kind"),
    [(Amend("x-ms-is-hns-enabled", "true"), True), (Amend("x-ms-is-hns-enabled", "false"), False)]
    + [
        (Fail(status, code), None)
        for status, code in ((403, "AuthorizationFailure"), (400, "InvalidQueryParameterValue"))
    ],
)
def test_the_account_tells_whether_its_namespace_is_hierarchical(
    azurite: AzuriteProcess, action: Action, kind: bool | None
) -> None:
    proxy = FaultProxy(azurite.port, azurite.connection_string)
    proxy.start()
    try:
        proxy.add(Match(query={"restype": "account"}), action)
        account = StorageAccount(f"http://127.0.0.1:{proxy.port}/{ACCOUNT}", ACCOUNT, key=KEY)
        with SinkContainer(account, azurite.container()) as sink:
            assert sink.is_hierarchical() is kind
    finally:
        proxy.close()


def test_missing_container_is_an_error_and_no_state_of_a_blob(azurite: AzuriteProcess) -> None:
    with SinkContainer(StorageAccount(azurite.url, ACCOUNT, key=KEY), azurite.container()) as store:
        with pytest.raises(StorageError, match="cannot lease x"):
            store.acquire("x", 15, MINE)
        with pytest.raises(StorageError, match="cannot write x"):
            store.replace("x", b"", '"0x1"', MINE)


def test_refused_key_names_container_and_remedy_and_not_the_key(azurite: AzuriteProcess, service: Any) -> None:
    container = azurite.container()
    service.create_container(container)
    wrong = "d3Jvbmcgd3Jvbmcgd3Jvbmc="
    with SinkContainer(StorageAccount(azurite.url, ACCOUNT, key=wrong), container) as store:
        with pytest.raises(
            StorageError, match=rf"cannot look at x in container {container} .*admit the cluster's subnet"
        ) as raised:
            store.facts("x")
        assert wrong not in str(raised.value)


RIGHTS = {
    "may do everything": ("racwdl", True),
    "may look, and not create": ("rl", False),
    "may not even look": ("w", True),  # the first write finds out
}


@pytest.mark.parametrize("case", RIGHTS)
def test_a_missing_container_is_created_or_known_to_be_missing(case: str, azurite: AzuriteProcess) -> None:
    rights, answer = RIGHTS[case]
    container = azurite.container()
    signature = generate_account_sas(
        ACCOUNT,
        KEY,
        # Rights to write objects, which are all that "w" is good for here, do not reach containers.
        ResourceTypes(container=rights != "w", object=True),
        AccountSasPermissions.from_string(rights),
        datetime.now(UTC) + timedelta(hours=1),
        services=Services(blob=True),
    )
    account = StorageAccount(azurite.url, ACCOUNT, sas=signature)
    output = AbfsFolder("abfs", container, host_name(azurite.port), "results")
    with SinkContainer(account, container) as store:
        site = Site(account, store, output, output, {})
        for _ in range(2):
            with (
                contextlib.nullcontext() if answer else pytest.raises(ConfigurationError, match="create it, or permit")
            ):
                site.ensure_output()
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        assert service.get_container_client(container).exists() is (rights == "racwdl")
