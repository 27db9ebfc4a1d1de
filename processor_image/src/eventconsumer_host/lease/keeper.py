"""Renews leases, and detects their loss without a response of storage.

A keeper renews its lease after three fifths of its duration: each renewal is a billed request, and the remaining time
until the fence (18 s of 60) is sufficient for several attempts, each with a time limit. `lease_time.Deadline` gives the
time for which a renewal is valid. `Keeper.check` is called before every effect.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from eventconsumer_host.errors import LeaseLost
from eventconsumer_storage.errors import StorageError, Unavailable
from eventconsumer_storage.lease_time import Deadline, boottime

RENEW = 0.6  # of the duration
ATTEMPT = 0.15  # of the duration: one request
MARGIN = 0.1  # of the duration
RETRY_SECONDS = 1.0
FAILED_RENEWALS = 2  # consecutive error responses before they are reported; a missing response is reported at once


class Keeper:
    """Renews one storage lease until it is lost.

    Attributes:
        lost: Set when the lease is lost.
        failure: Why renewals fail at present; None: the last one succeeded, or one of many may have failed.
    """

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
        self._deadline = Deadline(seconds, seconds * MARGIN, since, clock)
        self._why = ""
        self.failure: StorageError | None = None
        self._failures = 0

    def check(self) -> None:
        """Verify that the lease is held now.

        Raises:
            LeaseLost: It was taken over, or not renewed in time.
        """
        if not self.lost.is_set() and self._deadline.is_over:
            self.lose("it could not be renewed in time")
        if self.lost.is_set():
            raise LeaseLost(f"lease of {self._what} is lost: {self._why}")

    async def run(self) -> None:
        """Renew until the lease is lost (then `lost` is set and this returns) or the task is cancelled."""
        pause = self._seconds * RENEW
        while not self.lost.is_set():
            await self._pause(pause)
            try:
                self.check()
                sent = self._deadline.clock()
                async with asyncio.timeout(max(0.01, min(self._deadline.left, self._seconds * ATTEMPT))):
                    await self._renew()
                self._deadline.renewed(sent)
                self._failures, self.failure = 0, None
                pause = self._seconds * RENEW
            except LeaseLost as error:
                self.lose(str(error))
            except TimeoutError:
                self.failure = Unavailable(f"no response to the renewal of the lease of {self._what}")
                pause = RETRY_SECONDS
            except StorageError as error:
                self._failures += 1
                if self._failures >= FAILED_RENEWALS:
                    self.failure = error
                pause = RETRY_SECONDS

    def lose(self, why: str) -> None:
        """Record that the lease is lost, as another task detected."""
        self._why = self._why or why
        self.lost.set()

    async def _pause(self, seconds: float) -> None:
        """Wait for the given time, until the deadline, or until the lease is lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, max(0.0, self._deadline.left))):
                await self.lost.wait()
