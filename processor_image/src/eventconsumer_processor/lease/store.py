"""Reads and writes lease blobs. Every write carries the storage lease's id and the etag it is based on.

The order of an acquisition is what keeps epochs and checkpoints safe: take the storage lease, read the body *under* it,
then write owner and epoch + 1 with lease id and If-Match. The lease id is made up before the first request, so a
repeated request after an unknown outcome is the same request. Bodies are read again only when the listing shows another
etag.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from uuid import uuid4

from eventconsumer_processor.errors import Conflict, LeaseInvalid, LeaseLost, NotFound, StorageError, Unavailable
from eventconsumer_processor.lease import eventprocessorhost as layout
from eventconsumer_processor.lease.model import Lease, Taken
from eventconsumer_processor.storage import BlobStore

ACQUIRE_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Listing:
    """All leases of a consumer group."""

    leases: dict[str, Lease]
    invalid: dict[str, str]  # partition -> why its lease cannot be read


class LeaseStore:
    """The lease blobs of one consumer group."""

    def __init__(
        self, blobs: BlobStore, prefix: str, consumer_group: str, seconds: int, clock: Callable[[], float]
    ) -> None:
        self.seconds = seconds
        self._blobs = blobs
        self._prefix = prefix
        self._group = consumer_group
        self._clock = clock
        self._seen: dict[str, Lease] = {}

    def name(self, partition: str) -> str:
        """Name of a partition's lease blob."""
        return layout.blob_name(self._prefix, self._group, partition)

    async def list(self, partitions: Iterable[str]) -> Listing:
        """Read all leases, creating blobs that are missing.

        Raises:
            StorageError: The listing failed.
        """
        leases: dict[str, Lease] = {}
        invalid: dict[str, str] = {}
        try:
            listed = await self._blobs.list(layout.blob_prefix(self._prefix, self._group))
        except NotFound:  # the container was deleted: the chain of files knows where to go on
            await self._blobs.ensure_container()
            listed = []
        found = {info.name: info for info in listed}
        for partition in partitions:
            info = found.get(self.name(partition))
            if info is None:
                leases[partition] = await self._create(partition)
                continue
            seen = self._seen.get(partition)
            if seen is None or seen.etag != info.etag:
                try:
                    seen = await self.read(partition)
                except LeaseInvalid as error:
                    invalid[partition] = f"lease blob {info.name} cannot be read: {error}"
                    continue
            leases[partition] = self._seen[partition] = replace(seen, leased=info.leased)
        return Listing(leases, invalid)

    async def read(self, partition: str) -> Lease:
        """Read one lease.

        Raises:
            LeaseInvalid: The body is no lease.
            StorageError: The request failed.
        """
        blob = await self._blobs.read(self.name(partition), layout.MAX_BODY_BYTES + 1)
        if blob is None:
            raise NotFound(f"lease blob {self.name(partition)} is gone", 404, "BlobNotFound")
        return replace(layout.decode(blob.data, partition), etag=blob.info.etag, leased=blob.info.leased)

    async def acquire(self, seen: Lease, owner: str) -> Taken | None:
        """Take a free lease, or steal one that another host holds.

        Args:
            seen: The lease as listed: leased means steal it.
            owner: The new owner.

        Returns:
            The lease, or None where somebody else was faster or it cannot be stolen.

        Raises:
            LeaseInvalid: The body is no lease.
            StorageError: A request failed; what was taken is released again.
        """
        token = str(uuid4())
        since = await self._take(seen, token)
        if since is None:
            return None
        try:
            current = await self.read(seen.partition)
            taken = replace(current, owner=owner, token=token, epoch=current.epoch + 1, leased=True)
            return Taken(await self.write(taken), since)
        except (StorageError, LeaseInvalid, LeaseLost) as error:
            with contextlib.suppress(StorageError):
                await self._blobs.release_lease(self.name(seen.partition), token)
            if isinstance(error, Conflict | LeaseLost):
                return None
            raise

    async def renew(self, lease: Lease) -> None:
        """Renew.

        Raises:
            LeaseLost: Another host has the lease.
            StorageError: The request failed.
        """
        try:
            await self._blobs.renew_lease(self.name(lease.partition), lease.token)
        except (Conflict, NotFound) as error:
            raise LeaseLost(f"partition {lease.partition}: {error}") from error

    async def write(self, lease: Lease) -> Lease:
        """Write the body; `lease.token` must hold the storage lease and `lease.etag` be the current one.

        Raises:
            LeaseLost: Another host has the lease, or the blob was changed under it.
            StorageError: The request failed; the outcome may be unknown.
        """
        metadata = {layout.OWNER_METADATA: lease.owner} if lease.owner else {}
        try:
            etag = await self._blobs.put(
                self.name(lease.partition),
                layout.encode(lease),
                metadata=metadata,
                lease_id=lease.token,
                if_match=lease.etag,
            )
        except (Conflict, NotFound) as error:
            raise LeaseLost(f"partition {lease.partition}: {error}") from error
        return replace(lease, etag=etag)

    async def release(self, lease: Lease) -> None:
        """Give the partition up: owner and token emptied, then the storage lease released.

        Raises:
            LeaseLost: Another host has the lease already.
            StorageError: A request failed; the lease then runs out by itself.
        """
        name, token = self.name(lease.partition), lease.token
        body = layout.encode(replace(lease, owner="", token=""))
        try:
            await self._blobs.put(name, body, lease_id=token, if_match=lease.etag)
            await self._blobs.release_lease(name, token)
        except (Conflict, NotFound) as error:
            raise LeaseLost(f"partition {lease.partition}: {error}") from error

    async def _create(self, partition: str) -> Lease:
        fresh = Lease(partition)
        try:
            etag = await self._blobs.put(self.name(partition), layout.encode(fresh), if_absent=True)
        except Conflict:  # another host was faster
            return await self.read(partition)
        return replace(fresh, etag=etag)

    async def _take(self, seen: Lease, token: str) -> float | None:
        """Take the storage lease under `token`; the time of the request that took it, None where that cannot be."""
        name = self.name(seen.partition)
        for attempt in range(1, ACQUIRE_ATTEMPTS + 1):
            since = self._clock()
            try:
                if not seen.leased:
                    await self._blobs.acquire_lease(name, token, self.seconds)
                elif seen.token:
                    await self._blobs.change_lease(name, seen.token, token)
                    since = self._clock()
                    await self._blobs.renew_lease(name, token)  # changing does not restart its time
                else:
                    return None
            except Conflict:
                return None
            except Unavailable:
                if attempt == ACQUIRE_ATTEMPTS:
                    raise
            else:
                return since
        return None
