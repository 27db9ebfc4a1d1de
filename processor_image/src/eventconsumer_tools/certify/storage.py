"""Assumptions about Azure Blob Storage, checked on blobs of their own through the host's client.

The checks use a container that is created for them. A credential that may not create one (a signature of one container)
gets a folder below the consumer's own prefix instead. `CheckBlobs.remove` removes either.

Codes: learn.microsoft.com/rest/api/storageservices/blob-service-error-codes and …/lease-blob (outcomes of operations).
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from azure.core.exceptions import AzureError
from azure.storage.blob.aio import BlobClient, BlobLeaseClient, BlobServiceClient

from eventconsumer_storage.account import StorageAccount
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.errors import (
    Conflict,
    NotFound,
    Refused,
    StorageError,
    Unauthorized,
    Unavailable,
    storage_error,
)
from eventconsumer_tools.certify.model import SLOW, Assumption, Differs, Skipped
from eventconsumer_tools.inspect.storage import blob_store

LEASE_SECONDS = 15  # the shortest lease that Azure grants
RIVALS = 8  # concurrent writers of one blob
LISTED = 20  # blobs that are written and listed
REMOVE_ATTEMPTS, REMOVE_PAUSE = 3, 1.0  # seconds between attempts
_BODY = b"certify"
_ERRORS = (AzureError, OSError, TimeoutError, ValueError)


@dataclass(frozen=True)
class CheckBlobs:
    """Blobs for the checks of one account.

    Attributes:
        service: The account.
        container: Its container.
        prefix: Of all names; empty in an own container.
        own: Whether the container was created for the checks.
        account: Endpoint and credential.
        lease_seconds: Duration of leases.
    """

    service: BlobServiceClient
    container: str
    prefix: str
    own: bool
    account: StorageAccount
    lease_seconds: int = LEASE_SECONDS

    @property
    def store(self) -> AzureBlobStore:
        """The container, through the client of hosts."""
        return blob_store(self.service, self.container)

    @property
    def where(self) -> str:
        """Where the blobs are, for messages."""
        return f"container {self.container}" if self.own else f"{self.container}/{self.prefix}"

    def name(self, text: str) -> str:
        """The name of a blob."""
        return f"{self.prefix}{text}"

    def blob(self, text: str) -> BlobClient:
        """Azure's client of a blob, for requests that hosts do not make."""
        return self.service.get_blob_client(self.container, self.name(text))

    async def remove(self) -> str:
        """Remove everything; never fails.

        Returns:
            What is left, with the cause; empty: nothing.
        """
        cause: Exception | None = None
        for attempt in range(REMOVE_ATTEMPTS):
            if attempt:
                await asyncio.sleep(REMOVE_PAUSE)
            try:
                await (self.service.delete_container(self.container) if self.own else self._remove_blobs())
            except _ERRORS as error:
                cause = error
                if getattr(error, "status_code", 0) == 404:
                    return ""
            else:
                return ""
        return f"{self.where} in {self.service.primary_hostname}: {storage_error('remove', cause or OSError())}"

    async def _remove_blobs(self) -> None:
        """Delete the blobs of the folder, also leased ones and those of which only blocks exist."""
        container = self.service.get_container_client(self.container)
        names = [found.name async for found in container.list_blobs(self.prefix, include=["uncommittedblobs"])]
        for name in reversed(names):  # with a hierarchical namespace, a folder comes before its content
            blob = container.get_blob_client(name)
            try:
                await blob.delete_blob()
            except AzureError as error:
                status = getattr(error, "status_code", 0)
                if status == 404:  # blocks only: commit none of them, so that there is a blob to delete
                    await blob.commit_block_list([])
                elif status in {409, 412}:
                    await BlobLeaseClient(blob).break_lease(0)
                else:
                    raise
                await blob.delete_blob()


@asynccontextmanager
async def scratch(
    service: BlobServiceClient,
    account: StorageAccount,
    *,
    container: str,
    prefix: str | None,
    run: str,
    left: Callable[[str], object],
    lease_seconds: int = LEASE_SECONDS,
) -> AsyncIterator[CheckBlobs]:
    """The place of the blobs; it is removed at the end, however the block ends.

    Args:
        service: The account.
        account: Its endpoint and credential.
        container: The consumer's container, used if none can be created; empty: there is none.
        prefix: Of the consumer's blobs.
        run: Unique name of this run.
        left: Receives what could not be removed.
        lease_seconds: Duration of leases.

    Raises:
        StorageError: The account does not respond, or refuses this credential.
    """
    name = f"eventconsumer-certify-{run}"
    place: CheckBlobs | None = CheckBlobs(service, name, "", True, account, lease_seconds)
    try:
        try:
            await service.create_container(name)
        except _ERRORS as error:
            found = storage_error("create_container", error)
            if found.status:
                place = None  # it was not created
            if not isinstance(found, Unauthorized) or not container:
                raise found from error
        if place is None:
            folder = f"{(prefix or '').strip().rstrip('/')}/_certify/{run}/".lstrip("/")
            place = CheckBlobs(service, container, folder, False, account, lease_seconds)
            await place.store.put(place.name("first"), _BODY, if_absent=True)
        yield place
    finally:
        if place is not None and (what := await place.remove()):
            left(what)


async def facts(place: CheckBlobs) -> dict[str, str]:
    """Properties of the account, as far as the credential may read them."""
    found = {"api-version": str(place.service.api_version), "place": place.where}
    try:
        answer = await place.service.get_container_client(place.container).get_account_information()
    except _ERRORS:
        return found | {"kind": "unknown: the credential may not read it"}
    return found | {"kind": str(answer.get("account_kind")), "sku": str(answer.get("sku_name"))}


# --- the whole account ---


async def _container(place: CheckBlobs) -> str:
    try:
        await place.store.ensure_container()  # as at registration; it exists
    except Unauthorized as error:
        raise Differs(f"{place.container}: {error}") from error
    return f"{place.where} is used"


async def _flat(place: CheckBlobs) -> str:
    await place.store.put(place.name("folder/blob"), _BODY)
    if await place.store.head(place.name("folder")) is not None:
        raise Differs("the folder of a blob exists as a blob: the account has a hierarchical namespace")
    return "the folder of a blob does not exist"


async def _soft_delete(place: CheckBlobs) -> str:
    etag = await place.store.put(place.name("deleted"), _BODY)
    await place.store.remove(place.name("deleted"), if_match=etag)
    container = place.service.get_container_client(place.container)
    try:
        listing = container.list_blobs(place.name("deleted"), include=["deleted"])
        left = [found async for found in listing if found.deleted]
    except _ERRORS as error:
        raise Skipped(f"deleted blobs cannot be listed: {storage_error('list', error)}") from error
    if left:
        raise Differs("a deleted blob is kept")
    return "a deleted blob is gone"


async def _versioning(place: CheckBlobs) -> str:
    try:
        answer = await place.blob("versioned").upload_blob(_BODY, overwrite=True)
    except _ERRORS as error:
        raise storage_error("put", error) from error
    if answer.get("version_id"):
        raise Differs("a write makes a version")
    return "a write makes no version"


async def _wrong_credential(place: CheckBlobs) -> str:
    account = place.account
    if account.key is None:
        raise Skipped("needs an account key")
    wrong = StorageAccount(account.endpoint, account.name, key=base64.b64encode(uuid4().bytes * 4).decode())
    service = BlobServiceClient(wrong.endpoint, credential=wrong.key_credential, **client_options())
    async with service:
        return await _refused(
            "a request with a wrong key",
            blob_store(service, place.container).head(place.name("first")),
            Unauthorized,
        )


# --- files ---


async def _put_if_absent(place: CheckBlobs) -> str:
    name = place.name("once")
    await place.store.put(name, _BODY, if_absent=True)
    seen = await _refused(
        "a second put-if-absent",
        place.store.put(name, b"other", if_absent=True),
        Conflict,
        "BlobAlreadyExists",
        "ConditionNotMet",
    )
    await _holds(place, name, _BODY)
    return seen


async def _one_writer(place: CheckBlobs) -> str:
    name = place.name("contended")
    return await _one_wins(
        [place.store.put(name, b"%d" % number, if_absent=True) for number in range(RIVALS)], "put-if-absent"
    )


async def _one_committer(place: CheckBlobs) -> str:
    name = place.name("committed")
    ids = [_block_id(number) for number in range(RIVALS)]
    for number, block in enumerate(ids):
        await place.store.put_block(name, block, b"%d" % number)
    seen = await _one_wins(
        [place.store.put_block_list(name, [block], if_absent=True) for block in ids], "put-block-list-if-absent"
    )
    blob = await place.store.read(name, 10)
    if blob is None or blob.data not in {b"%d" % number for number in range(RIVALS)}:
        raise Differs("the committed blob has the content of no writer")
    return seen


async def _staged_hidden(place: CheckBlobs) -> str:
    name = place.name("staged")
    await place.store.put_block(name, _block_id(0), _BODY)
    if await place.store.head(name) is not None:
        raise Differs("a blob of which only blocks exist is found by HEAD")
    if await place.store.list(name):
        raise Differs("a blob of which only blocks exist is listed")
    return "neither HEAD nor a listing shows it"


async def _staged_no_obstacle(place: CheckBlobs) -> str:
    name = place.name("staged-and-put")
    await place.store.put_block(name, _block_id(0), _BODY)
    try:
        await place.store.put(name, b"put", if_absent=True)
    except Conflict as error:
        raise Differs(f"put-if-absent is refused with {error.status} {error.code}, although no blob exists") from error
    await _holds(place, name, b"put")
    return "put-if-absent succeeds"


async def _list_after_write(place: CheckBlobs) -> str:
    names = [place.name(f"listed/{number:03}") for number in range(LISTED)]
    etags = dict(zip(names, await asyncio.gather(*(place.store.put(name, b"") for name in names)), strict=True))
    listed = {info.name: info.etag for info in await place.store.list(place.name("listed/0"))}
    if listed.keys() != etags.keys():
        raise Differs(f"{len(listed)} of {LISTED} blobs are listed right after they were written")
    if listed != etags:
        raise Differs("a listing gives other ETags than the writes")
    await place.store.remove(names[0], if_match=etags[names[0]])
    if names[0] in {info.name for info in await place.store.list(place.name("listed/0"))}:
        raise Differs("a blob is listed after it was deleted")
    return f"all {LISTED} blobs and their ETags are listed"


async def _list_order(place: CheckBlobs) -> str:
    names = [place.name(f"order/{text}") for text in ("a-b", "a/b", "a0", "a=1/x", "b")]
    for name in reversed(names):
        await place.store.put(name, b"")
    listed = [info.name for info in await place.store.list(place.name("order/a"))]
    wanted = sorted(names[:-1])
    if listed != wanted:
        raise Differs(f"the order is {', '.join(name.removeprefix(place.prefix) for name in listed)}")
    return "by the bytes of the names"


async def _etag_condition(place: CheckBlobs) -> str:
    name = place.name("guarded")
    first = await place.store.put(name, _BODY)
    second = await place.store.put(name, b"second", metadata={"note": ""}, if_match=first)
    info = await place.store.head(name)
    if info is None or info.etag != second or first == second:
        raise Differs("HEAD gives another ETag than the last write, or the ETag did not change")
    if dict(info.metadata) != {"note": ""}:
        raise Differs(f"an empty metadata value is returned as {dict(info.metadata)}")
    seen = await _refused(
        "a write with an old ETag", place.store.put(name, b"x", if_match=first), Conflict, "ConditionNotMet"
    )
    await _refused("a delete with an old ETag", place.store.remove(name, if_match=first), Conflict, "ConditionNotMet")
    await place.store.remove(name, if_match=second)
    await _refused("a write to a deleted blob", place.store.put(name, b"x", if_match=second), (Conflict, NotFound))
    return seen


async def _empty(place: CheckBlobs) -> str:
    await place.store.put(place.name("empty"), b"")
    blob = await place.store.read(place.name("empty"), 100)
    if blob is None or blob.data:
        raise Differs(f"an empty blob is read as {blob}")
    if await place.store.read(place.name("absent"), 100) is not None:
        raise Differs("an absent blob is read")
    return "empty and absent blobs are distinguished"


# --- leases ---


async def _exclusive(place: CheckBlobs) -> str:
    name, mine = await _leased(place, "exclusive")
    try:
        await place.store.acquire_lease(name, mine, place.lease_seconds)
    except Conflict as error:
        raise Differs(f"acquiring again with the same id is refused: {error}") from error
    info = await place.store.head(name)
    if info is None or not info.leased or info.forever:
        raise Differs("HEAD does not show the lease")
    return await _refused(
        "a second lease",
        place.store.acquire_lease(name, str(uuid4()), place.lease_seconds),
        Conflict,
        "LeaseAlreadyPresent",
    )


async def _etag_of_renewal(place: CheckBlobs) -> str:
    name = place.name("renewed")
    written, mine = await place.store.put(name, _BODY), str(uuid4())
    await place.store.acquire_lease(name, mine, place.lease_seconds)
    etags = {"acquire": await _etag(place, name)}
    await place.store.renew_lease(name, mine)
    etags["renew"] = await _etag(place, name)
    changed = [step for step, etag in etags.items() if etag != written]
    try:
        written = await place.store.put(name, b"new", lease_id=mine, if_match=written)
    except Conflict as error:
        raise Differs(f"a write of the holder with its last ETag is refused after a renewal: {error}") from error
    await place.store.release_lease(name, mine)
    if await _etag(place, name) != written:
        changed.append("release")
    if changed:
        raise Differs(f"the ETag changes with: {', '.join(changed)}")
    return "acquire, renew and release keep the ETag"


async def _guarded(place: CheckBlobs) -> str:
    name, mine = await _leased(place, "held")
    without = await _refused("a write without the lease id", place.store.put(name, b"x"), Conflict, "LeaseIdMissing")
    other = await _refused(
        "a write with another lease id",
        place.store.put(name, b"x", lease_id=str(uuid4())),
        Conflict,
        "LeaseIdMismatchWithBlobOperation",
    )
    await place.store.put(name, b"holder", lease_id=mine)
    await place.store.release_lease(name, mine)
    gone = await _refused(
        "a write with a released lease",
        place.store.put(name, b"x", lease_id=mine),
        Conflict,
        "LeaseNotPresentWithBlobOperation",
        "LeaseLost",
    )
    return f"without an id {without}, with another {other}, after its release {gone}"


async def _stolen(place: CheckBlobs) -> str:
    name, mine = await _leased(place, "stolen")
    await _refused(
        "the release of a lease with another id",
        place.store.release_lease(name, str(uuid4())),
        Conflict,
        "LeaseIdMismatchWithLeaseOperation",
    )
    await place.store.release_lease(name, mine)  # by another program, which has read the id in the blob
    await place.store.acquire_lease(name, str(uuid4()), place.lease_seconds)
    return await _not_renewed(place, name, mine)


async def _broken(place: CheckBlobs) -> str:
    name, mine = await _leased(place, "broken")
    try:
        await BlobLeaseClient(place.blob("broken")).break_lease(0)
    except _ERRORS as error:
        raise storage_error("break_lease", error) from error
    info = await place.store.head(name)
    if info is None or info.leased:
        raise Differs("a broken lease is still shown")
    seen = await _refused(
        "a renewal of a broken lease",
        place.store.renew_lease(name, mine),
        Conflict,
        "LeaseIsBrokenAndCannotBeRenewed",
        "LeaseIdMismatchWithLeaseOperation",
    )
    await place.store.acquire_lease(name, str(uuid4()), place.lease_seconds)
    return seen


async def _expired(place: CheckBlobs) -> str:
    name, mine = await _leased(place, "expired")
    await asyncio.sleep(place.lease_seconds * 0.6)
    await place.store.renew_lease(name, mine)
    await asyncio.sleep(place.lease_seconds * 0.6)
    await _refused(
        "a lease of another program in the time of a renewed lease",
        place.store.acquire_lease(name, str(uuid4()), place.lease_seconds),
        Conflict,
        "LeaseAlreadyPresent",
    )
    await asyncio.sleep(place.lease_seconds * 0.6)
    info = await place.store.head(name)
    if info is None or info.leased:
        raise Differs(f"{place.lease_seconds * 1.2:.0f} s after its renewal the lease is still shown")
    await place.store.acquire_lease(name, str(uuid4()), place.lease_seconds)
    return await _not_renewed(place, name, mine)


async def _absent(place: CheckBlobs) -> str:
    return await _refused(
        "a lease of an absent blob",
        place.store.acquire_lease(place.name("nothing"), str(uuid4()), place.lease_seconds),
        NotFound,
        "BlobNotFound",
    )


# --- parts of checks ---


async def _refused(
    what: str, call: Awaitable[object], kind: type[StorageError] | tuple[type[StorageError], ...], *codes: str
) -> str:
    """The status and code with which storage refuses a request.

    Raises:
        Differs: It accepts the request, or refuses it in another way.
        Unavailable: It does not respond.
    """
    try:
        await call
    except Unavailable:
        raise
    except StorageError as error:
        # The answer to a HEAD has no body: its code is in a header, which some servers leave out.
        if isinstance(error, kind) and (not codes or error.code in codes):
            return f"{error.status} {error.code}".strip()
        raise Differs(f"{what} is refused with {error.status} {error.code or 'without a code'}") from error
    raise Differs(f"{what} is accepted")


async def _one_wins(calls: list[Awaitable[str]], what: str) -> str:
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, Unavailable) or (
            isinstance(answer, BaseException) and not isinstance(answer, Conflict | Refused)
        ):
            raise answer
    winners = sum(isinstance(answer, str) for answer in answers)
    if winners != 1:
        raise Differs(f"{winners} of {len(answers)} concurrent writers succeed with {what}")
    codes = {f"{answer.status} {answer.code}" for answer in answers if isinstance(answer, StorageError)}
    return f"one of {len(answers)} writers succeeds, the others get {', '.join(sorted(codes))}"


async def _leased(place: CheckBlobs, text: str) -> tuple[str, str]:
    """A new blob with a lease: its name, and the id of the lease."""
    name, token = place.name(text), str(uuid4())
    await place.store.put(name, _BODY)
    await place.store.acquire_lease(name, token, place.lease_seconds)
    return name, token


async def _not_renewed(place: CheckBlobs, name: str, token: str) -> str:
    """The code with which a lease that another program has now is not renewed."""
    return await _refused(
        "a renewal of the old holder",
        place.store.renew_lease(name, token),
        Conflict,
        "LeaseIdMismatchWithLeaseOperation",
    )


async def _etag(place: CheckBlobs, name: str) -> str:
    info = await place.store.head(name)
    if info is None:
        raise Differs(f"{name} is gone")
    return info.etag


async def _holds(place: CheckBlobs, name: str, content: bytes) -> None:
    blob = await place.store.read(name, 100)
    if blob is None or blob.data != content:
        raise Differs(f"{name} has another content than the one that was written first")


def _block_id(number: int) -> str:
    return base64.b64encode(b"%08d" % number).decode()


_REPORT = "report it with this output: until then, do not use the account"
_NO_FENCE = "two hosts can both believe that they wrote a file or hold a partition"


async def _writable(place: CheckBlobs) -> str:
    return f"blobs are written to {place.where}"


WRITABLE = Assumption(
    "writable", "The credential may write blobs.", "hosts do not register", "see eventconsumer check", _writable
)
ACCOUNT: tuple[Assumption[CheckBlobs], ...] = (
    Assumption(
        "container-exists",
        "The credential can find out whether its container exists.",
        "hosts do not register with this credential",
        "use a key, an identity, or a signature with the permission to list",
        _container,
    ),
    Assumption(
        "flat-namespace",
        "The account has no hierarchical namespace.",
        "Spark can write only to the dfs endpoint of this account, and Microsoft advises against such accounts for "
        "leases and checkpoints",
        "with workload identity, use the dfs endpoint in spec.spark.output.path; use an account without hierarchical "
        "namespace for spec.checkpointStore",
        _flat,
    ),
    Assumption(
        "soft-delete",
        "A deleted blob is gone: soft delete is off.",
        "every overwritten lease and checkpoint is kept and paid for, and leases can become slow",
        "turn soft delete off, or use another account for spec.checkpointStore",
        _soft_delete,
    ),
    Assumption(
        "versioning",
        "A write makes no version: versioning is off.",
        "every write of a lease or checkpoint is kept and paid for, and leases can become slow",
        "turn versioning off, or use another account for spec.checkpointStore",
        _versioning,
    ),
    Assumption(
        "wrong-account-key",
        "A wrong key is refused with status 403.",
        "the condition for a wrong key names another cause",
        _REPORT,
        _wrong_credential,
    ),
    Assumption(
        "read-empty",
        "An empty blob can be read with a range.",
        "records that are empty cannot be read",
        _REPORT,
        _empty,
    ),
    Assumption(
        "etag",
        "A write, or a delete, with an old ETag is refused.",
        "a host can overwrite what another one wrote",
        _REPORT,
        _etag_condition,
    ),
)
FILES: tuple[Assumption[CheckBlobs], ...] = (
    Assumption(
        "put-if-absent", "A blob that exists is not overwritten by put-if-absent.", _NO_FENCE, _REPORT, _put_if_absent
    ),
    Assumption(
        "put-if-absent-contended",
        "Of concurrent writers of one blob, exactly one succeeds.",
        _NO_FENCE,
        _REPORT,
        _one_writer,
    ),
    Assumption(
        "commit-if-absent-contended",
        "Of concurrent commits of blocks to one blob, exactly one succeeds.",
        _NO_FENCE,
        _REPORT,
        _one_committer,
    ),
    Assumption(
        "staged-blocks-hidden",
        "A blob of which only blocks exist is not visible.",
        "an unfinished upload looks like a file",
        _REPORT,
        _staged_hidden,
    ),
    Assumption(
        "staged-blocks-no-obstacle",
        "Blocks of an unfinished upload do not prevent put-if-absent.",
        "after a host died during an upload, writing that file takes two more requests",
        "no action is required: hosts do this automatically",
        _staged_no_obstacle,
    ),
    Assumption(
        "list-after-write",
        "A listing shows every blob as soon as it is written, and none that is deleted.",
        "a file can be missing from a batch until the next listing",
        _REPORT,
        _list_after_write,
    ),
    Assumption(
        "list-order",
        "A listing is in the order of the names' bytes.",
        "hosts misjudge the end of a chain",
        "use an account without hierarchical namespace for spec.sink",
        _list_order,
    ),
)
LEASES: tuple[Assumption[CheckBlobs], ...] = (
    Assumption("lease-exclusive", "A leased blob cannot be leased under another id.", _NO_FENCE, _REPORT, _exclusive),
    Assumption(
        "lease-etag",
        "The ETag of a blob does not change when its lease is acquired, renewed or released.",
        "each checkpoint after a renewal takes two more requests",
        "no action is required: hosts do this automatically",
        _etag_of_renewal,
    ),
    Assumption("lease-guards-writes", "Only the holder of a lease can write the blob.", _NO_FENCE, _REPORT, _guarded),
    Assumption(
        "lease-stolen",
        "A program that knows the id can release a lease, and the old holder cannot renew it.",
        "partitions cannot be moved between hosts",
        _REPORT,
        _stolen,
    ),
    Assumption(
        "lease-broken",
        "A broken lease cannot be renewed, and the blob can be leased again.",
        "the remedy of an infinite lease does not work",
        _REPORT,
        _broken,
    ),
    Assumption(
        "lease-expired",
        "A lease ends its duration after the last renewal, not before and not long after.",
        "partitions of a dead host are not taken over, or a live host loses its own",
        _REPORT,
        _expired,
        (SLOW,),
    ),
    Assumption(
        "lease-absent",
        "A lease of an absent blob is refused with status 404.",
        "a deleted lease is not created again",
        _REPORT,
        _absent,
    ),
)
