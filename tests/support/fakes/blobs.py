"""A blob container in memory: etags, put-if-absent, leases on the test's clock, and faults.

It responds as Azure Blob Storage does, with the same status and codes; the contract tests run against it and against
Azurite. All times come from the clock, so that runs are reproducible. `watch` receives every change of content, so that
a test can check the history of a blob. `break_lease`, `delete` and `delete_container` represent administrators and
other programs.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import md5
from uuid import uuid4

from eventconsumer_storage.blobs import Blob, BlobInfo, BlobStore
from eventconsumer_storage.errors import Conflict, NotFound, Refused, StorageError, Unavailable

METADATA_BYTES = 8192  # of one blob: Azure takes no more
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)  # when the clock was 0

FOREVER = -1  # as a lease's seconds: it never expires; only other programs ask for that


@dataclass
class _Held:
    token: str
    until: float
    seconds: float
    broken: bool = False  # breaking until `until`, then broken: it cannot be renewed any more


@dataclass
class _Blob:
    data: bytes
    metadata: dict[str, str]
    etag: str
    modified: datetime
    lease: _Held | None = None
    md5: bytes = b""


@dataclass
class Fault:
    """Fails one later request: before it is applied, or after (the response is lost)."""

    operation: str
    applied: bool = False
    error: Callable[[], StorageError] = field(default=lambda: Unavailable("injected fault"))


@dataclass(frozen=True)
class Version:
    """A change of a blob, with its new content."""

    name: str
    data: bytes | None  # None: deleted
    metadata: Mapping[str, str]
    etag: str


class FakeBlobStore:
    """`storage.BlobStore` in memory."""

    account = "account"
    url = "https://account.blob.core.windows.net/files"

    def __init__(self, clock: Callable[[], float], *, hierarchical: bool = False) -> None:
        """Create an empty container.

        Args:
            clock: Seconds.
            hierarchical: Whether it does what accounts with a hierarchical namespace are not documented to leave out:
                operations on a lease change the etag, and `head` shows a name that has uncommitted blocks only.
        """
        self._hierarchical = hierarchical
        self.blobs: dict[str, _Blob] = {}
        self.calls: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.watch: Callable[[Version], None] = lambda _: None
        self._clock = clock
        self._staged: dict[str, dict[str, bytes]] = {}  # by blob and id: blocks in no blob yet
        self._version = 0
        self._exists = True

    async def ensure_container(self) -> None:
        """See `BlobStore`."""
        lost = self._begin("ensure_container", "")
        self._exists = True
        if lost:
            raise lost

    def break_lease(self, name: str, seconds: float) -> None:
        """Break a lease: it is breaking for `seconds` or its remaining time, then broken."""
        if held := self._lease(self.blobs[name]):
            held.until = min(held.until, self._clock() + seconds)
            held.broken = True
            self._leased(self.blobs[name])

    def delete(self, name: str) -> None:
        """Delete a blob, also with a lease."""
        del self.blobs[name]
        self.watch(Version(name, None, {}, ""))

    def delete_container(self) -> None:
        """Delete the container with all blobs."""
        for name in list(self.blobs):
            self.delete(name)
        self._staged.clear()
        self._exists = False

    async def head(self, name: str) -> BlobInfo | None:
        """See `BlobStore`."""
        self._begin("head", name)
        if self._hierarchical and name in self._staged and name not in self.blobs:
            return BlobInfo(name, '"0"', 0, EPOCH)
        return self._info(name) if name in self.blobs else None

    async def read(self, name: str, limit: int) -> Blob | None:
        """See `BlobStore`."""
        self._begin("read", name)
        return Blob(self._info(name), self.blobs[name].data[:limit]) if name in self.blobs else None

    async def read_range(self, name: str, start: int, size: int, *, if_match: str) -> bytes:
        """See `BlobStore`."""
        self._begin("read", name)
        if name not in self.blobs:
            raise NotFound("the blob does not exist", 404, "BlobNotFound")
        if self.blobs[name].etag != if_match:
            raise Conflict("the condition is not met", 412, "ConditionNotMet")
        return self.blobs[name].data[start : start + size]

    async def put(
        self,
        name: str,
        data: bytes,
        *,
        metadata: Mapping[str, str] | None = None,
        lease_id: str | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
    ) -> str:
        """See `BlobStore`."""
        lost = self._begin("put", name)
        _check_metadata(metadata)
        found = self.blobs.get(name)
        if found is None:
            if lease_id or if_match:
                raise NotFound("put: BlobNotFound", 404, "BlobNotFound")
            self._need_container()
            if if_absent and name in self._staged:  # as Azurite does; Azure does not mind
                raise Conflict("put: BlobAlreadyExists", 409, "BlobAlreadyExists")
        else:
            self._check_conditions(found, lease_id, if_match, if_absent)
        etag = self._write(name, data, metadata)
        self.blobs[name].md5 = md5(data, usedforsecurity=False).digest()
        if lost:
            raise lost
        return etag

    async def put_block(self, name: str, block_id: str, data: bytes) -> None:
        """See `BlobStore`."""
        lost = self._begin("put_block", name)
        self._need_container()
        self._staged.setdefault(name, {})[block_id] = data
        if lost:
            raise lost

    async def put_block_list(
        self, name: str, block_ids: Sequence[str], *, metadata: Mapping[str, str] | None = None, if_absent: bool = False
    ) -> str:
        """See `BlobStore`."""
        lost = self._begin("put_block_list", name)
        _check_metadata(metadata)
        self._need_container()
        if name in self.blobs:
            self._check_conditions(self.blobs[name], None, None, if_absent)
        staged = self._staged.get(name, {})
        if any(block_id not in staged for block_id in block_ids):
            raise Refused("put_block_list: InvalidBlockList", 400, "InvalidBlockList")
        etag = self._write(name, b"".join(staged[block_id] for block_id in block_ids), metadata)
        if lost:
            raise lost
        return etag

    async def remove(self, name: str, *, if_match: str) -> None:
        """See `BlobStore`."""
        lost = self._begin("remove", name)
        self._check_conditions(self._need(name), None, if_match, if_absent=False)
        self.delete(name)
        if lost:
            raise lost

    async def set_metadata(self, name: str, metadata: Mapping[str, str], *, if_match: str | None = None) -> str:
        """See `BlobStore`."""
        lost = self._begin("set_metadata", name)
        _check_metadata(metadata)
        blob = self._need(name)
        self._check_conditions(blob, None, if_match, if_absent=False)
        self._version += 1
        blob.metadata, blob.etag = dict(metadata), f'"{self._version}"'
        blob.modified = EPOCH + timedelta(seconds=self._clock())
        self.watch(Version(name, blob.data, blob.metadata, blob.etag))
        if lost:
            raise lost
        return blob.etag

    async def list(self, prefix: str, *, metadata: bool = False, limit: int | None = None) -> list[BlobInfo]:
        """See `BlobStore`."""
        self._begin("list", prefix)
        self._need_container()
        infos = [self._info(name) for name in sorted(self.blobs) if name.startswith(prefix)][:limit]
        return infos if metadata else [_without_metadata(info) for info in infos]

    async def level(self, prefix: str) -> Sequence[str]:
        """See `BlobStore`."""
        self._begin("list", prefix)
        self._need_container()
        names = [name for name in sorted(self.blobs) if name.startswith(prefix)]
        return [*dict.fromkeys(name[: name.find("/", len(prefix)) + 1] or name for name in names)]

    async def list_page(self, prefix: str, token: str = "", *, limit: int = 5000) -> tuple[Sequence[BlobInfo], str]:
        """See `BlobStore`. A token is the name of the last blob before."""
        self._begin("list", prefix)
        self._need_container()
        names = [name for name in sorted(self.blobs) if name.startswith(prefix) and name > token]
        return [self._info(name) for name in names[:limit]], names[limit - 1] if len(names) > limit else ""

    async def acquire_lease(self, name: str, lease_id: str, seconds: int) -> None:
        """See `BlobStore`."""
        lost = self._begin("acquire_lease", name)
        blob = self._need(name)
        held = self._lease(blob)
        if held and held.broken:
            raise Conflict("acquire_lease: LeaseIsBreaking", 409, "LeaseIsBreakingAndCannotBeAcquired")
        if held and held.token != lease_id:
            raise Conflict("acquire_lease: LeaseAlreadyPresent", 409, "LeaseAlreadyPresent")
        until = math.inf if seconds == FOREVER else self._clock() + seconds
        blob.lease = _Held(lease_id, until, seconds)
        self._leased(blob)
        if lost:
            raise lost

    async def renew_lease(self, name: str, lease_id: str) -> None:
        """See `BlobStore`. An expired lease can be renewed if the blob was neither leased nor written since."""
        lost = self._begin("renew_lease", name)
        blob = self._need(name)
        if blob.lease is None or blob.lease.token != lease_id:
            raise Conflict("renew_lease: LeaseIdMismatch", 409, "LeaseIdMismatchWithLeaseOperation")
        if blob.lease.broken:
            raise Conflict("renew_lease: LeaseIsBroken", 409, "LeaseIsBrokenAndCannotBeRenewed")
        if blob.lease.seconds != FOREVER:
            blob.lease.until = self._clock() + blob.lease.seconds
        self._leased(blob)
        if lost:
            raise lost

    async def release_lease(self, name: str, lease_id: str) -> None:
        """See `BlobStore`."""
        lost = self._begin("release_lease", name)
        blob = self._need(name)
        if blob.lease is None or blob.lease.token != lease_id:
            raise Conflict("release_lease: LeaseIdMismatch", 409, "LeaseIdMismatchWithLeaseOperation")
        blob.lease = None
        self._leased(blob)
        if lost:
            raise lost

    async def close(self) -> None:
        """See `BlobStore`."""

    def _check_conditions(self, blob: _Blob, lease_id: str | None, if_match: str | None, if_absent: bool) -> None:
        if if_absent:
            raise Conflict("put: BlobAlreadyExists", 409, "BlobAlreadyExists")
        held = self._lease(blob)
        if held and lease_id is None:
            raise Conflict("put: LeaseIdMissing", 412, "LeaseIdMissing")
        if lease_id and blob.lease is None:
            raise Conflict("put: LeaseNotPresent", 412, "LeaseNotPresentWithBlobOperation")
        if lease_id and blob.lease and blob.lease.token != lease_id:
            raise Conflict("put: LeaseIdMismatch", 412, "LeaseIdMismatchWithBlobOperation")
        if lease_id and held is None:
            raise Conflict("put: LeaseLost", 412, "LeaseLost")
        if if_match and if_match != blob.etag:
            raise Conflict("put: ConditionNotMet", 412, "ConditionNotMet")
        if held is None and lease_id is None:
            blob.lease = None  # a write ends what an expired lease still allowed

    def _write(self, name: str, data: bytes, metadata: Mapping[str, str] | None) -> str:
        """Store this blob; uncommitted blocks are dropped."""
        self._staged.pop(name, None)
        self._version += 1
        blob = self.blobs.setdefault(name, _Blob(b"", {}, "", EPOCH))
        blob.data, blob.metadata, blob.etag, blob.md5 = data, dict(metadata or {}), f'"{self._version}"', b""
        blob.modified = EPOCH + timedelta(seconds=self._clock())
        self.watch(Version(name, data, blob.metadata, blob.etag))
        return blob.etag

    def _begin(self, operation: str, name: str) -> StorageError | None:
        """Record the call; raises a fault before it is applied, or returns the one to raise afterwards."""
        self.calls.append((operation, name))
        if len(name) > 1024:
            raise Refused("OutOfRangeInput", 400, "OutOfRangeInput")
        for fault in self.faults:
            if fault.operation == operation:
                self.faults.remove(fault)
                if fault.applied:
                    return fault.error()
                raise fault.error()
        return None

    def _need_container(self) -> None:
        if not self._exists:
            raise NotFound("ContainerNotFound", 404, "ContainerNotFound")

    def _need(self, name: str) -> _Blob:
        if name not in self.blobs:
            raise NotFound("BlobNotFound", 404, "BlobNotFound")
        return self.blobs[name]

    def _leased(self, blob: _Blob) -> None:
        if self._hierarchical:
            self._version += 1
            blob.etag = f'"{self._version}"'

    def _lease(self, blob: _Blob) -> _Held | None:
        return blob.lease if blob.lease and self._clock() < blob.lease.until else None

    def _info(self, name: str) -> BlobInfo:
        blob = self.blobs[name]
        held = self._lease(blob)
        forever = held is not None and held.until == math.inf
        size, leased, metadata = len(blob.data), held is not None, dict(blob.metadata)
        return BlobInfo(name, blob.etag, size, blob.modified, metadata, leased, forever, blob.md5)


async def put_blocks(
    blobs: BlobStore,
    name: str,
    blocks: Iterable[bytes],
    *,
    metadata: Mapping[str, str] | None = None,
    if_absent: bool = False,
) -> str:
    """Put a blob in blocks, as a writer of large files does, and return its etag."""
    writer, ids = uuid4(), list[str]()
    for block in blocks:
        ids.append(f"{writer}-{len(ids):05d}")
        await blobs.put_block(name, ids[-1], block)
        await asyncio.sleep(0)  # another writer may come between two requests
    return await blobs.put_block_list(name, ids, metadata=metadata, if_absent=if_absent)


def _check_metadata(metadata: Mapping[str, str] | None) -> None:
    if sum(len(key) + len(value) for key, value in (metadata or {}).items()) > METADATA_BYTES:
        raise Refused("MetadataTooLarge", 400, "MetadataTooLarge")


def _without_metadata(info: BlobInfo) -> BlobInfo:
    return replace(info, metadata={})
