"""A partition lease of this host: a `Keeper` renews it, and this module does all writes to it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from eventconsumer_host.errors import LeaseInvalid, LeaseLost
from eventconsumer_host.lease.keeper import Keeper
from eventconsumer_host.lease.model import Checkpoint, Lease, Taken, next_epoch
from eventconsumer_host.lease.store import LeaseStore
from eventconsumer_storage.errors import NotFound, StorageError, Unavailable
from eventconsumer_storage.lease_time import boottime

RELEASE_PAUSES = (
    0.1,
    0.4,
)  # seconds between attempts: without a release the partition is unread until the lease expires

log = structlog.get_logger(__name__)


class HeldLease:
    """A partition lease held by this host: kept alive, and written by one request at a time.

    The first operation (renewal, write or read) that detects the loss ends it for all.
    """

    def __init__(self, store: LeaseStore, taken: Taken, clock: Callable[[], float] = boottime) -> None:
        """A lease that was just acquired."""
        self._store = store
        self._lease = taken.lease
        self._lock = asyncio.Lock()
        self._uncertain = False  # a write's outcome is unknown: the etag may have changed
        what = f"partition {taken.lease.partition}"
        self.keeper = Keeper(what, self._renew, store.seconds, taken.since, clock)

    @property
    def lease(self) -> Lease:
        """The lease as last written."""
        return self._lease

    async def refresh(self) -> Lease:
        """Read the lease again and verify that this host owns it.

        Raises:
            LeaseLost: Another host owns it, or the lease was deleted or is no longer valid.
            StorageError: The request failed.
        """
        async with self._lock:
            await self._reload()
            return self._lease

    async def advance(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; one that is not above the current one is ignored, so it never falls.

        Raises:
            LeaseLost: This host does not hold the lease.
            StorageError: The request failed; the next checkpoint covers this one.
        """
        async with self._lock:
            if self._is_above(checkpoint):
                await self._certain()
            if self._is_above(checkpoint):
                await self._write(lambda lease: self._store.advance(lease, checkpoint))

    async def rewind(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint whatever the current one is; raises as `advance`."""
        async with self._lock:
            await self._certain()
            await self._write(lambda lease: self._store.advance(lease, checkpoint))
        if self._lease.checkpoint != checkpoint:
            raise Unavailable(f"the checkpoint of partition {self._lease.partition} was written by another program")

    async def raise_epoch(self, above: int) -> None:
        """Raise the epoch above one found in the chain, for example after a lease blob was deleted.

        Raises:
            LeaseInvalid: There is no higher epoch.
            LeaseLost: This host does not hold the lease.
            StorageError: The request failed.
        """
        async with self._lock:
            if self._lease.epoch <= above:
                await self._certain()
                epoch = next_epoch(self._lease.partition, above)
                await self._write(lambda lease: self._store.raise_epoch(lease, epoch))

    async def release(self) -> None:
        """Release the partition; after a few attempts without a response, the lease expires by itself."""
        async with self._lock:
            for pause in (*RELEASE_PAUSES, None):
                if self.keeper.lost.is_set():
                    return
                try:
                    await self._certain()
                    await self._store.release(self._lease)
                except LeaseLost:
                    return  # it belongs to another host, or an attempt succeeded without a response
                except StorageError as error:
                    if pause is None:
                        log.warning(
                            "the lease was not released: the partition is unread until the lease expires",
                            partition=self._lease.partition,
                            error=str(error),
                        )
                    else:
                        await asyncio.sleep(pause)
                else:
                    return

    async def _renew(self) -> None:
        """Renew, concurrently with a write, whose etag is the newer one."""
        before = self._lease
        renewed = await self._store.renew(before)
        if self._lease.etag == before.etag:
            self._lease = replace(self._lease, etag=renewed.etag)

    async def _write(self, write: Callable[[Lease], Awaitable[Lease]]) -> None:
        self.keeper.check()
        self._uncertain = True
        before = self._lease
        try:
            written = await write(before)
        except LeaseLost as error:
            self.keeper.lose(str(error))
            raise
        if written.etag == before.etag:  # a concurrent renewal may have changed it
            written = replace(written, etag=self._lease.etag)
        self._lease = written
        self._uncertain = False

    async def _certain(self) -> None:
        if self._uncertain:
            await self._reload()

    async def _reload(self) -> None:
        self.keeper.check()
        partition = self._lease.partition
        try:
            current = await self._store.read(partition)
            if current.owner != self._lease.owner or current.token != self._lease.token:
                raise LeaseLost(f"partition {partition} now belongs to {current.owner or 'no host'}")
        except (LeaseLost, LeaseInvalid, NotFound) as error:
            self.keeper.lose(str(error))
            raise LeaseLost(str(error)) from error
        self._lease = current
        self._uncertain = False

    def _is_above(self, checkpoint: Checkpoint) -> bool:
        current = self._lease.checkpoint
        return current is None or checkpoint.sequence_number > current.sequence_number
