"""How many storage requests this host makes: in the last minutes, and what it would make if nothing happened.

Every request is paid for, and most of an idle consumer's are made to keep leases. The rate is over a window that slides
in whole minutes, so that a burst does not look like a habit. What rest costs follows from the configuration and from
what the host holds: see `lease.keeper` (renewals), `partitions` (scans) and `leader` (the lead).
"""

from collections import deque
from collections.abc import Callable

from eventconsumer_processor.batch.leader import STAND_BY
from eventconsumer_processor.identity.records import LEAD_SECONDS, MOVED_SECONDS
from eventconsumer_processor.lease.keeper import RENEW
from eventconsumer_processor.partition.manager import REST_SCANS, SCAN_JITTER, scan_pause
from eventconsumer_storage.async_blobs import Observer

WINDOW_SECONDS = 900.0
SOON_SECONDS = 300.0  # before this much is known, there is no rate
_SLICE_SECONDS = 60.0
_HOUR = 3600.0


class StorageCalls:
    """Counts requests on their way to the metrics."""

    def __init__(self, observe: Observer, clock: Callable[[], float]) -> None:
        """Pass everything on to `observe`; `clock` gives seconds and must go on in suspend."""
        self._pass_on = observe
        self._clock = clock
        self._began = clock()
        self._slices: deque[list[float]] = deque()  # when it began, and how many requests since

    def observe(self, operation: str, outcome: str) -> None:
        """One request ended; see `storage.Observer`."""
        self._pass_on(operation, outcome)
        now = self._clock()
        if not self._slices or now - self._slices[-1][0] >= _SLICE_SECONDS:
            self._forget(now)
            self._slices.append([now, 0.0])
        self._slices[-1][1] += 1

    def per_hour(self) -> float | None:
        """Requests an hour at the rate of the last quarter of an hour; None while too little is known."""
        now = self._clock()
        self._forget(now)
        seconds = min(WINDOW_SECONDS, now - self._began)
        if seconds < SOON_SECONDS:
            return None
        return sum(count for _, count in self._slices) / seconds * _HOUR

    def _forget(self, now: float) -> None:
        while self._slices and now - self._slices[0][0] >= WINDOW_SECONDS:
            self._slices.popleft()


def idle_per_hour(renewed: int, seconds: float, *, leads: bool, rests: bool) -> float:
    """Requests an hour of a host at rest.

    Args:
        renewed: Leases that it renews, the lead not counted.
        seconds: Duration of a lease.
        leads: Whether it leads.
        rests: Whether its scans rest: the operator tells it about the fleet.
    """
    renewals = renewed * _HOUR / (RENEW * seconds)
    scans = _HOUR / (scan_pause(seconds) * sum(SCAN_JITTER) / 2 * (REST_SCANS if rests else 1))
    lead = min(seconds, LEAD_SECONDS)
    attempts = _HOUR / (RENEW * lead) if leads else _HOUR / (lead / 3 * 0.75 * (STAND_BY if rests else 1))
    return renewals + scans + attempts + 2 * _HOUR / MOVED_SECONDS
