"""Renews a lease while the driver works, and detects when it may have ended without a response of storage.

`lease_time.Deadline` gives the time for which a renewal is valid. Two threads: one renews; the other checks the clock
and never uses the network.
"""

import logging
import threading
from collections.abc import Callable

from eventconsumer_spark.errors import ClaimLostError
from eventconsumer_storage.errors import StorageError
from eventconsumer_storage.lease_time import Deadline, boottime

log = logging.getLogger(__name__)

LEASE_SECONDS = 30
MARGIN_SECONDS = 5.0
"""Time for the driver to stop writing before the lease ends, seconds."""
RENEW_SECONDS = 10.0
RETRY_SECONDS = 1.0
WATCH_SECONDS = 0.25


class Keeper:
    """Renews one lease until it is stopped, or until the lease is lost.

    Args:
        what: The claim, for messages.
        renew: Renews once; False if the lease is no longer held. Raises StorageError without a response.
        since: Time at which the request that acquired the lease was sent, by `clock`.
        on_lost: Called once, from a thread of the keeper, with the reason; it ends the driver.
        clock: Seconds.
        renew_seconds: Interval between renewals.
        retry_seconds: Interval after a failed renewal.
    """

    def __init__(
        self,
        what: str,
        renew: Callable[[], bool],
        since: float,
        on_lost: Callable[[str], None],
        clock: Callable[[], float] = boottime,
        *,
        renew_seconds: float = RENEW_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._what = what
        self._renew = renew
        self._on_lost = on_lost
        self._deadline = Deadline(LEASE_SECONDS, MARGIN_SECONDS, since, clock)
        self._why = ""
        self._stopped = threading.Event()
        self._said = threading.Lock()
        self._threads = [
            threading.Thread(target=task, name=f"claim-{task.__name__.strip('_')}", daemon=True)
            for task in (self._renewals, self._watch)
        ]

    def start(self) -> None:
        """Start renewing."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop renewing; the lease is not released."""
        self._stopped.set()

    def check(self) -> None:
        """Verify that the lease is held now.

        Raises:
            ClaimLostError: It was taken over, or not renewed in time.
        """
        if not self._why and self._deadline.is_over:
            self.lose("it could not be renewed in time")
        if self._why:
            raise ClaimLostError(f"{self._what} is lost: {self._why}: nothing was committed; another attempt continues")

    def lose(self, why: str) -> None:
        """Record that the lease is lost, as another task detected."""
        with self._said:
            if self._why or self._stopped.is_set():
                return
            self._why = why
        self._on_lost(f"{self._what} is lost: {why}: nothing was committed; another attempt continues")

    def _renewals(self) -> None:
        pause = self._renew_seconds
        while not self._stopped.wait(pause):
            sent = self._deadline.clock()
            try:
                held = self._renew()
            except StorageError as error:
                log.warning("%s was not renewed; trying again: %s", self._what, error)
                pause = self._retry_seconds
                continue
            if not held:
                self.lose("another attempt, or a user, took over its lease")
                return
            self._deadline.renewed(sent)
            pause = self._renew_seconds

    def _watch(self) -> None:
        while not self._stopped.wait(WATCH_SECONDS):
            try:
                self.check()
            except ClaimLostError:
                return
