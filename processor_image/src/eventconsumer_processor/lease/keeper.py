"""Keeps leases, and knows when they are lost without being told.

A keeper renews its lease at three fifths of its duration: each renewal is a request that is paid for, and what is left
until the fence (9 s of 30) is time for several attempts, each bounded, so that one that hangs is not the last. It
trusts a renewal from the moment the request was *sent*, by a clock that also counts while the machine sleeps
(CLOCK_BOOTTIME), and fences itself a margin before the lease could expire: a host that was stopped, or that storage
does not answer, stops by itself before another host may start. `Keeper.check` is asked before every effect.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from eventconsumer_processor.errors import LeaseInvalid, LeaseLost, NotFound, StorageError
from eventconsumer_processor.lease.model import Checkpoint, Lease, Taken
from eventconsumer_processor.lease.store import LeaseStore

RENEW = 0.6  # of the duration
ATTEMPT = 0.15  # of the duration: one request
MARGIN = 0.1  # of the duration
RETRY_SECONDS = 1.0


def boottime() -> float:
    """Seconds since boot, time in suspend included; unaffected by changes of the wall clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Keeper:
    """Renews one storage lease until it is lost."""

    def __init__(
        self,
        what: str,
        renew: Callable[[], Awaitable[None]],
        seconds: float,
        since: float,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.lost = asyncio.Event()
        self._what = what
        self._renew = renew
        self._seconds = seconds
        self._clock = clock
        self._deadline = self._until(since)
        self._why = ""

    def check(self) -> None:
        """Make sure that the lease is held now.

        Raises:
            LeaseLost: It was taken, or it was not renewed in time.
        """
        if not self.lost.is_set() and self._clock() >= self._deadline:
            self.lose("it could not be renewed in time")
        if self.lost.is_set():
            raise LeaseLost(f"lease of {self._what} is lost: {self._why}")

    async def run(self) -> None:
        """Renew until the lease is lost (then `lost` is set and this returns) or the task is cancelled."""
        pause = self._seconds * RENEW
        while not self.lost.is_set():
            await asyncio.sleep(min(pause, max(0.0, self._deadline - self._clock())))
            try:
                self.check()
                sent = self._clock()
                async with asyncio.timeout(max(0.01, min(self._deadline - sent, self._seconds * ATTEMPT))):
                    await self._renew()
                self._deadline = self._until(sent)
                pause = self._seconds * RENEW
            except LeaseLost as error:
                self.lose(str(error))
            except (StorageError, TimeoutError):
                pause = RETRY_SECONDS

    def lose(self, why: str) -> None:
        """The lease is lost, as somebody found out."""
        self._why = self._why or why
        self.lost.set()

    def _until(self, sent: float) -> float:
        return sent + self._seconds * (1 - MARGIN)


class HeldLease:
    """A partition lease held by this host: kept alive, and written by one request at a time.

    Whoever finds out that it is lost, a renewal, a write or a look, ends it for all.
    """

    def __init__(self, store: LeaseStore, taken: Taken, clock: Callable[[], float] = boottime) -> None:
        self._store = store
        self._lease = taken.lease
        self._lock = asyncio.Lock()
        self._uncertain = False  # a write's outcome is unknown: the etag may have changed
        self.keeper = Keeper(f"partition {taken.lease.partition}", self._renew, store.seconds, taken.since, clock)

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
        """Give the partition up; a failure is left to the lease's expiry."""
        async with self._lock:
            if self.keeper.lost.is_set():
                return
            with contextlib.suppress(LeaseLost, StorageError):
                await self._certain()
                await self._store.release(self._lease)

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
