"""A partition lease of this host: a `Keeper` keeps it, and all that is written to it goes through here."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from eventconsumer_processor.errors import LeaseInvalid, LeaseLost
from eventconsumer_processor.lease.keeper import Keeper
from eventconsumer_processor.lease.model import Checkpoint, Lease, Taken
from eventconsumer_processor.lease.store import LeaseStore
from eventconsumer_storage.errors import NotFound, StorageError, Unavailable
from eventconsumer_storage.lease_time import boottime

RELEASE_PAUSES = (0.1, 0.4)  # seconds between attempts: a partition whose lease runs out is unread for its duration

log = structlog.get_logger(__name__)


class HeldLease:
    """A partition lease held by this host: kept alive, and written by one request at a time.

    Whoever finds out that it is lost, a renewal, a write or a look, ends it for all.
    """

    def __init__(self, store: LeaseStore, taken: Taken, clock: Callable[[], float] = boottime) -> None:
        """A lease just taken."""
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
        """Read the lease again and make sure that this host owns it.

        Raises:
            LeaseLost: It does not: another host does, or the lease is gone or no lease any more.
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
        """Write a checkpoint wherever the current one is; raises as `advance`."""
        async with self._lock:
            await self._certain()
            await self._write(lambda lease: self._store.advance(lease, checkpoint))
        if self._lease.checkpoint != checkpoint:
            raise Unavailable(f"the checkpoint of partition {self._lease.partition} was written by another program")

    async def raise_epoch(self, above: int) -> None:
        """Lift the epoch above one found in the chain, as after a lease blob was deleted.

        Raises:
            LeaseLost: This host does not hold the lease.
            StorageError: The request failed.
        """
        async with self._lock:
            if self._lease.epoch <= above:
                await self._certain()
                await self._write(lambda lease: self._store.raise_epoch(lease, above + 1))

    async def release(self) -> None:
        """Give the partition up; where storage does not answer a few times, that is left to the lease's expiry."""
        async with self._lock:
            for pause in (*RELEASE_PAUSES, None):
                if self.keeper.lost.is_set():
                    return
                try:
                    await self._certain()
                    await self._store.release(self._lease)
                except LeaseLost:
                    return  # it belongs to another host, or an attempt had its effect without an answer
                except StorageError as error:
                    if pause is None:
                        log.warning(
                            "the lease was not released, so the partition is unread until it runs out",
                            partition=self._lease.partition,
                            error=str(error),
                        )
                    else:
                        await asyncio.sleep(pause)
                else:
                    return

    async def _renew(self) -> None:
        """Renew, beside a write that may be under way: the newer etag is the writer's."""
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
        if written.etag == before.etag:  # a renewal beside this may have changed it
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
                raise LeaseLost(f"partition {partition} belongs to {current.owner or 'nobody'} now")
        except (LeaseLost, LeaseInvalid, NotFound) as error:
            self.keeper.lose(str(error))
            raise LeaseLost(str(error)) from error
        self._lease = current
        self._uncertain = False

    def _is_above(self, checkpoint: Checkpoint) -> bool:
        current = self._lease.checkpoint
        return current is None or checkpoint.sequence_number > current.sequence_number
