"""Error codes of storage, sent by a proxy before the real Azurite: what hosts make of each of them."""

from collections.abc import AsyncIterator, Iterator

import pytest

from eventconsumer_api.wire.host_config import BlobLocation, Credential
from eventconsumer_host import problems
from eventconsumer_host.errors import LeaseLost
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.lease.azuresdk_store import AzureSdkStore
from eventconsumer_host.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.lease.store import LeaseStore
from eventconsumer_storage.account import StorageAccount
from eventconsumer_storage.async_blobs import AzureBlobStore, blob_service
from eventconsumer_storage.errors import NotFound, Refused, StorageError, Unauthorized, Unavailable
from eventconsumer_storage.lease_time import boottime
from eventconsumer_storage.sync_blobs import SyncBlobStore
from eventconsumer_tools.inspect.storage import AccountFacts, account_facts
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.faultactions import Amend, Fail
from tests.support.faultproxy import FaultProxy, Match

LEASE = Match("PUT", query={"comp": "lease"})
PUT = Match("PUT", headers={"x-ms-blob-type": "BlockBlob"})
METADATA = Match("PUT", query={"comp": "metadata"})
ASKS = Match(query={"restype": "container", "comp": None})  # whether the container exists, or to create it


@pytest.fixture
def proxy(azurite: AzuriteProcess) -> Iterator[FaultProxy]:
    """A proxy without faults."""
    made = FaultProxy(azurite.port, azurite.connection_string)
    made.start()
    yield made
    made.close()


@pytest.fixture
def location(proxy: FaultProxy, azurite: AzuriteProcess, tmp_path_factory: pytest.TempPathFactory) -> BlobLocation:
    """A container that does not exist, through the proxy."""
    file = tmp_path_factory.mktemp("secret") / "storage"
    file.write_text(proxy.connection_string)
    credential = Credential(field="spec.sink.authentication", secret="s", key="k", connection_string_file=str(file))
    return BlobLocation(container=azurite.container(), prefix="p", credential=credential)


@pytest.fixture
async def blobs(location: BlobLocation) -> AsyncIterator[AzureBlobStore]:
    """That container."""
    store = AzureBlobStore(blob_service(location, "spec.sink", True, ()), location.container, lambda _, __: None)
    yield store
    await store.close()


async def held(store: LeaseStore) -> HeldLease:
    """Partition 0, acquired."""
    taken = await store.acquire((await store.list(["0"])).leases["0"], "host")
    assert taken is not None
    return HeldLease(store, taken)


def stores(blobs: AzureBlobStore) -> dict[str, LeaseStore]:
    """Both layouts."""
    return {
        "EventProcessorHost": EventProcessorHostStore(blobs, "", "$Default", 60, boottime),
        "AzureSdk": AzureSdkStore(blobs, Names("", "shop.example", "orders", "$Default"), 60, boottime),
    }


async def test_a_credential_that_may_not_ask_for_the_container_can_use_it(
    proxy: FaultProxy, blobs: AzureBlobStore
) -> None:
    proxy.add(ASKS, Fail(403, "AuthorizationPermissionMismatch"))
    with pytest.raises(NotFound, match="may not create container"):
        await blobs.ensure_container()
    proxy.clear()
    await blobs.ensure_container()
    proxy.add(ASKS, Fail(403, "AuthorizationPermissionMismatch"))
    await blobs.ensure_container()
    proxy.add(Match(query={"comp": "list"}), Fail(403, "AuthenticationFailed"))
    with pytest.raises(Unauthorized, match="AuthenticationFailed"):
        await blobs.ensure_container()


@pytest.mark.parametrize("layout", ["EventProcessorHost", "AzureSdk"])
@pytest.mark.parametrize(
    ("code", "kind"), [("BlobImmutableDueToPolicy", Refused), ("PendingCopyOperation", Unavailable)]
)
async def test_a_refused_checkpoint_does_not_cost_the_lease(
    proxy: FaultProxy, blobs: AzureBlobStore, layout: str, code: str, kind: type[StorageError]
) -> None:
    await blobs.ensure_container()
    lease = await held(stores(blobs)[layout])
    for match in (PUT, METADATA):
        proxy.add(match, Fail(409, code))
    with pytest.raises(kind) as raised:
        await lease.advance(Checkpoint("70", 7))
    assert raised.value.code == code
    proxy.clear()
    await lease.advance(Checkpoint("80", 8))
    assert (await lease.refresh()).checkpoint == Checkpoint("80", 8)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("LeaseIdMismatchWithLeaseOperation", "another program holds the lease"),
        ("LeaseNotPresentWithLeaseOperation", "the lease has ended"),
        ("LeaseIsBrokenAndCannotBeRenewed", "broke the lease"),
    ],
)
async def test_a_lost_lease_names_the_cause(proxy: FaultProxy, blobs: AzureBlobStore, code: str, why: str) -> None:
    await blobs.ensure_container()
    store = stores(blobs)["EventProcessorHost"]
    lease = await held(store)
    proxy.add(LEASE, Fail(409, code))
    with pytest.raises(LeaseLost, match=why) as raised:
        await store.renew(lease.lease)
    assert code in str(raised.value)


async def test_a_renewal_that_storage_cannot_execute_now_does_not_cost_the_lease(
    proxy: FaultProxy, blobs: AzureBlobStore
) -> None:
    await blobs.ensure_container()
    store = stores(blobs)["EventProcessorHost"]
    lease = await held(store)
    proxy.add(LEASE, Fail(409, "ContainerBeingDeleted"), times=1)
    with pytest.raises(Unavailable):
        await store.renew(lease.lease)
    await store.renew(lease.lease)


@pytest.mark.parametrize(
    ("status", "code", "reason", "texts"),
    [
        (403, "AuthorizationFailure", "StorageUnauthorized", ("network rules", "networking settings")),
        (403, "AuthorizationPermissionMismatch", "StorageUnauthorized", ("no permission", "Blob Data Contributor")),
        (403, "KeyBasedAuthenticationNotPermitted", "StorageUnauthorized", ("permit keys", "workloadIdentity")),
        (403, "AuthenticationFailed", "StorageUnauthorized", ("clock is wrong", "node's time")),
        (403, "Unheard", "StorageUnauthorized", ("rejects the credential", "Blob Data Contributor")),
        (409, "BlobImmutableDueToPolicy", "StorageRefused", ("immutability policy", "version-level policy")),
        (409, "ContainerBeingDeleted", "StorageRefused", ("being deleted", "wait")),
        (409, "PendingCopyOperation", "StorageRefused", ("copies to the blob", "abort it")),
        (409, "Unheard", "StorageRefused", ("refuses a request", "blob-service-error-codes")),
        (400, "InvalidHeaderValue", "StorageRefused", ("version of the storage API", "storageApiVersion")),
        (404, "ContainerNotFound", "ContainerInvalid", ("does not exist", "create it")),
        (400, "InvalidAuthenticationInfo", "StorageUnauthorized", ("malformed", "copy the connection string again")),
        (503, "ServerBusy", "StorageUnreachable", ("limits the requests of the account", "raise sink.roll")),
        (500, "OperationTimedOut", "StorageUnreachable", ("in time", "Azure's service health")),
        (500, "InternalError", "StorageUnreachable", ("internal error", "Azure's service health")),
        (503, "Unheard", "StorageUnreachable", ("does not respond correctly", "DNS")),
    ],
)
async def test_each_code_is_a_problem_with_its_cause_and_remedy(
    proxy: FaultProxy,
    blobs: AzureBlobStore,
    location: BlobLocation,
    status: int,
    code: str,
    reason: str,
    texts: tuple[str, str],
) -> None:
    await blobs.ensure_container()
    proxy.add(PUT, Fail(status, code))
    with pytest.raises(StorageError) as raised:
        await blobs.put("b", b"1")
    found = problems.storage_problem(problems.SINK, location, raised.value)
    assert found.reason == reason
    assert all(text in found.message for text in (*texts, code, location.container))
    assert found.message.index(texts[1]) < 300
    assert code == "Unheard" or (found.field == location.credential.field) == (reason == "StorageUnauthorized")


async def test_settings_of_the_account_are_recognised_by_its_responses(
    proxy: FaultProxy, blobs: AzureBlobStore, location: BlobLocation
) -> None:
    await blobs.ensure_container()
    service = blob_service(location, "spec.sink", True, ())
    async with service:
        assert await account_facts(service, location.container) == AccountFacts(None, False)  # Azurite does not tell
        proxy.add(Match(query={"restype": "account"}), Amend("x-ms-is-hns-enabled", "true"))
        proxy.add(Match(query={"restype": "service"}), Fail(403, "AuthorizationFailure"))
        assert await account_facts(service, location.container) == AccountFacts(True, None)
    await blobs.put("b", b"1")
    proxy.add(Match("HEAD"), Amend("x-ms-version-id", "2026-01-01T00:00:00.0000000Z"), times=1)
    versioned, plain = await blobs.head("b"), await blobs.head("b")
    assert versioned and plain and (versioned.versioned, plain.versioned) == (True, False)


async def test_every_client_sends_the_version_of_the_spec(proxy: FaultProxy, location: BlobLocation) -> None:
    older = location.model_copy(update={"storage_api_version": "2019-07-07"})
    store = AzureBlobStore(blob_service(older, "spec.sink", True, ()), location.container, lambda _, __: None)
    await store.ensure_container()
    await store.put("b", b"1")
    await store.close()
    url = f"http://127.0.0.1:{proxy.port}/{ACCOUNT}"
    with SyncBlobStore(StorageAccount(url, ACCOUNT, key=KEY, api_version="2019-07-07"), location.container) as spark:
        assert spark.head("b")
    assert {exchange.request.headers["x-ms-version"] for exchange in proxy.exchanges} == {"2019-07-07"}
