"""The session of this host: begun before it takes its first lease, renewed by a task, and begun anew when it is lost.

A session that cannot be had costs nothing but money: leases are renewed one by one then. One that is lost takes all
leases with it that are tied to it, at the moment at which this host knows it, which is before others may know.
"""

import asyncio
import contextlib
from collections.abc import Callable
from uuid import uuid4

import structlog

from eventconsumer_processor.errors import StorageError
from eventconsumer_processor.lease.keeper import ATTEMPT, Bond, Keeper, boottime
from eventconsumer_processor.lease.model import Listing
from eventconsumer_processor.lease.planned import pod_of
from eventconsumer_processor.lease.session_blobs import SessionBlobs
from eventconsumer_processor.lease.sessions import Session, TieRule

RETRY = 1 / 3  # of the duration: a session that could not be begun is tried again
BEGIN_SECONDS = 1.0  # for which the first acquisition waits for the session
END_SECONDS = 2.0

log = structlog.get_logger(__name__)


class HostSession:
    """One session after the other, from `start` to `end`."""

    def __init__(
        self,
        blobs: SessionBlobs,
        owner: str,
        seconds: float,
        ties: TieRule,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._ties = ties
        self._blobs = blobs
        self._owner = owner
        self._seconds = seconds
        self._clock = clock
        self._bond: Bond | None = None
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()

    async def start(self) -> None:
        """Begin the first session if there was none yet, and wait a little for it; none where nothing is ever tied."""
        if self._ties.shared:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="session")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._tried.wait()

    async def end(self) -> None:
        """End in order; the session that cannot be ended runs out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def alive(self) -> bool:
        """Whether there is a session now."""
        return self._bond is not None and not self._bond.keeper.lost.is_set()

    @property
    def must_untie(self) -> bool:
        """Whether no lease may be tied any more."""
        return self._ties.must_untie

    def look(self, listing: Listing) -> None:
        """Take in who owns what, and who has a session."""
        self._ties.look(self._clock(), self._owner, listing.leases, listing.sessions)

    def bond(self) -> Bond | None:
        """What a lease is to be tied to now; None where each is renewed by itself."""
        return self._bond if self._ties.may_tie and self.alive else None

    async def _run(self) -> None:
        while True:
            session = Session(pod_of(self._owner), str(uuid4()))
            since = self._clock()
            try:
                async with asyncio.timeout(self._seconds * ATTEMPT):
                    await self._blobs.begin(session)
            except (StorageError, TimeoutError) as error:
                log.info("no session, leases are renewed one by one", error=str(error))
                self._tried.set()
                await self._end(session)  # what was begun without an answer
                await asyncio.sleep(self._seconds * RETRY)
            except asyncio.CancelledError:
                await self._end(session)
                raise
            else:
                await self._keep(session, since)

    async def _keep(self, session: Session, since: float) -> None:
        async def renew() -> None:
            await self._blobs.renew(session)

        self._bond = Bond(session.text, Keeper(f"session {session.pod}", renew, self._seconds, since, self._clock))
        self._tried.set()
        log.info("session begun")
        try:
            await self._bond.keeper.run()
            log.warning("the session was lost")
        finally:
            self._bond = None
            await self._end(session)

    async def _end(self, session: Session) -> None:
        with contextlib.suppress(StorageError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._blobs.end(session)
