"""Keeps a lease alive while the driver works, and knows when it may have ended without being told.

`lease_time.Deadline` tells how long a renewal can be relied on. Two threads: one renews, one looks at the clock and
never at the network.
"""

import logging
import threading
from collections.abc import Callable

from eventconsumer_spark.errors import ClaimLostError
from eventconsumer_storage.errors import StorageError
from eventconsumer_storage.lease_time import Deadline, boottime

log = logging.getLogger("eventconsumer.spark")

LEASE_SECONDS = 30
MARGIN_SECONDS = 5.0
"""What the driver has to stop writing, between giving up its lease and the lease's end."""
RENEW_SECONDS = 10.0
RETRY_SECONDS = 1.0
WATCH_SECONDS = 0.25


class Keeper:
    """Renews one lease until it is stopped, or until the lease is lost.

    Args:
        what: The claim, for messages.
        renew: Renews once; False where the lease is not held any more. Raises StorageError for no answer.
        since: When the request was sent that took the lease, by `clock`.
        on_lost: Called once, from a thread of the keeper, with the reason; it ends the driver.
        clock: Seconds.
        renew_seconds: From one renewal to the next.
        retry_seconds: From one that failed to the next.
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
        """Stop renewing; the lease is left as it is."""
        self._stopped.set()

    def check(self) -> None:
        """Make sure that the lease is held now.

        Raises:
            ClaimLostError: It was taken, or it was not renewed in time.
        """
        if not self._why and self._deadline.is_over:
            self.lose("it could not be renewed in time")
        if self._why:
            raise ClaimLostError(f"{self._what} is lost: {self._why}: nothing was committed; another attempt goes on")

    def lose(self, why: str) -> None:
        """The lease is lost, as another task found out."""
        with self._said:
            if self._why or self._stopped.is_set():
                return
            self._why = why
        self._on_lost(f"{self._what} is lost: {why}: nothing was committed; another attempt goes on")

    def _renewals(self) -> None:
        pause = self._renew_seconds
        while not self._stopped.wait(pause):
            sent = self._deadline.clock()
            try:
                held = self._renew()
            except StorageError as error:
                log.warning("%s was not renewed, will try again: %s", self._what, error)
                pause = self._retry_seconds
                continue
            if not held:
                self.lose("another attempt, or a person, took its lease")
                return
            self._deadline.renewed(sent)
            pause = self._renew_seconds

    def _watch(self) -> None:
        while not self._stopped.wait(WATCH_SECONDS):
            try:
                self.check()
            except ClaimLostError:
                return
