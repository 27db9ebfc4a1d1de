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
from dataclasses import dataclass
from typing import Protocol

from eventconsumer_processor.errors import LeaseLost, StorageError

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
