"""Keeps leases, and knows when they are lost without being told.

A keeper renews its lease at three fifths of its duration: each renewal is a request that is paid for, and what is left
until the fence (9 s of 30) is time for several attempts, each bounded, so that one that hangs is not the last. It
trusts a renewal from the moment the request was *sent*, by a clock that also counts while the machine sleeps
(CLOCK_BOOTTIME), and fences itself a margin before the lease could expire: a host that was stopped, or that storage
does not answer, stops by itself before another host may start. `Keeper.check` is asked before every effect.

After each renewal a lease may be tied to the host's session (see `sessions`). From then on it is not renewed: it is
held as long as the session's own keeper says, and lost in the moment in which that one is.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

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


class Ties(Protocol):
    """How a lease is tied to the host's session."""

    def bond(self) -> "Bond | None":
        """The session that it is to be tied to now, if any."""

    async def tie(self, session: str) -> None:
        """Tie it to that session; where this fails, it may be tied or not."""

    async def untie(self) -> None:
        """Renew it, and let it run out by itself again."""


class Keeper:
    """Renews one storage lease until it is lost."""

    def __init__(
        self,
        what: str,
        renew: Callable[[], Awaitable[None]],
        seconds: float,
        since: float,
        clock: Callable[[], float] = boottime,
        *,
        ties: Ties | None = None,
    ) -> None:
        self.lost = asyncio.Event()
        self._ties = ties
        self._bond: Keeper | None = None  # the session's, while this lease is tied, or may be
        self._tied = False  # it surely is, and does not run out by itself
        self._bound: set[Keeper] = set()  # what is tied to this lease
        self._woken = asyncio.Event()
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
        if not self.lost.is_set():
            if self._bond is not None:
                with contextlib.suppress(LeaseLost):
                    self._bond.check()  # which loses this one, too
            if not self._tied and self._clock() >= self._deadline:
                self.lose("it could not be renewed in time")
        if self.lost.is_set():
            raise LeaseLost(f"lease of {self._what} is lost: {self._why}")

    async def run(self) -> None:
        """Renew until the lease is lost (then `lost` is set and this returns) or the task is cancelled."""
        pause: float | None = self._seconds * RENEW
        while not self.lost.is_set():
            await self._pause(pause)
            try:
                self.check()
                sent = self._clock()
                await self._go_on(sent)
                self._deadline = self._until(sent)
                await self._tie()
                pause = None if self._tied else self._seconds * RENEW
            except LeaseLost as error:
                self.lose(str(error))
            except (StorageError, TimeoutError):
                pause = RETRY_SECONDS

    def lose(self, why: str) -> None:
        """The lease is lost, as somebody found out, and all that is tied to it."""
        self._why = self._why or why
        self.lost.set()
        self._woken.set()
        self._bind(None)
        for tied in [*self._bound]:
            tied.lose(why)

    @property
    def tied(self) -> bool:
        """Whether it is tied to a session, and not renewed."""
        return self._tied

    def loosen(self) -> None:
        """Renew it now, and untie it."""
        self._woken.set()

    async def _pause(self, seconds: float | None) -> None:
        """Wait so long, or until the deadline; a lease that is tied until something happens."""
        if not self._tied:
            seconds = min(seconds or 0.0, max(0.0, self._deadline - self._clock()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    async def _go_on(self, sent: float) -> None:
        """Renew it; untie it, where it is tied or may be.

        An attempt to untie may have its effect without an answer: then it runs out, at the earliest, a duration after
        the first one was sent.
        """
        if self._tied:
            self._tied, self._deadline = False, self._until(sent)
        async with asyncio.timeout(max(0.01, min(self._deadline - sent, self._seconds * ATTEMPT))):
            if self._bond is None or self._ties is None:
                await self._renew()
            else:
                await self._ties.untie()
        self._bind(None)

    async def _tie(self) -> None:
        """Tie it, if that may be.

        An attempt may have its effect without an answer. So it binds whether it succeeds or not: a lease that may be
        tied is held no longer than its session, and no longer than it was renewed for.
        """
        bond = self._ties.bond() if self._ties is not None and not self.lost.is_set() else None
        if self._ties is None or bond is None:
            return
        self._bind(bond.keeper)
        with contextlib.suppress(StorageError, TimeoutError):
            async with asyncio.timeout(self._seconds * ATTEMPT):
                await self._ties.tie(bond.session)
            self._tied = True
        bond.keeper.check()

    def _bind(self, bond: "Keeper | None") -> None:
        """Be tied to this session, or to none."""
        if self._bond is not None:
            self._bond._bound.discard(self)
        if bond is not None:
            bond._bound.add(self)
        self._bond = bond

    def _until(self, sent: float) -> float:
        return sent + self._seconds * (1 - MARGIN)


@dataclass(frozen=True)
class Bond:
    """A session that a lease can be tied to."""

    session: str  # what the lease names it by
    keeper: Keeper


class HeldLease:
    """A partition lease held by this host: kept alive, and written by one request at a time.

    Whoever finds out that it is lost, a renewal, a write or a look, ends it for all.
    """

    def __init__(
        self,
        store: LeaseStore,
        taken: Taken,
        clock: Callable[[], float] = boottime,
        bond: Callable[[], Bond | None] = lambda: None,
    ) -> None:
        """A lease just taken; `bond` says what it is to be tied to at the moment, if anything."""
        self._store = store
        self._bond = bond
        self._lease = taken.lease
        self._lock = asyncio.Lock()
        self._uncertain = False  # a write's outcome is unknown: the etag may have changed
        what = f"partition {taken.lease.partition}"
        self.keeper = Keeper(what, self._renew, store.seconds, taken.since, clock, ties=self)

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

    def bond(self) -> Bond | None:
        """See `Ties`."""
        return self._bond()

    async def tie(self, session: str) -> None:
        """See `Ties`."""
        async with self._lock:
            await self._certain()
            await self._write(lambda lease: self._store.tie(lease, session))

    async def untie(self) -> None:
        """See `Ties`."""
        async with self._lock:
            await self._certain()
            await self._write(self._store.untie)

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
