"""The storage requests of this host: the current rate, and the expected rate at idle.

Each request is paid for; an idle consumer makes most of its requests to renew leases. The rate is measured over a
sliding window, so that a short burst has little weight. The idle rate follows from the configuration and the held
leases: see `lease.keeper` (renewals), `partition.manager` (scans) and `batch.leader` (the leader lease).
"""

from collections import deque
from collections.abc import Callable

from eventconsumer_host.batch.leader import STAND_BY
from eventconsumer_host.identity.records import LEAD_SECONDS, MOVED_SECONDS
from eventconsumer_host.lease.keeper import RENEW
from eventconsumer_host.partition.manager import REST_SCANS, SCAN_JITTER, scan_pause
from eventconsumer_storage.async_blobs import Observer

WINDOW_SECONDS = 900.0
SOON_SECONDS = 300.0  # the shortest time over which a rate is computed
_SLICE_SECONDS = 60.0
_HOUR = 3600.0


class StorageCalls:
    """Counts storage requests."""

    def __init__(self, observe: Observer, clock: Callable[[], float]) -> None:
        """Forward each request to `observe`; `clock` returns seconds and must advance during suspend."""
        self._pass_on = observe
        self._clock = clock
        self._began = clock()
        self._slices: deque[list[float]] = deque()  # start of the slice, and its requests

    def observe(self, operation: str, outcome: str) -> None:
        """Count one completed request; see `Observer`."""
        self._pass_on(operation, outcome)
        now = self._clock()
        if not self._slices or now - self._slices[-1][0] >= _SLICE_SECONDS:
            self._forget(now)
            self._slices.append([now, 0.0])
        self._slices[-1][1] += 1

    def per_hour(self) -> float | None:
        """Requests per hour, at the rate of the last 15 minutes; None in the first 5 minutes."""
        now = self._clock()
        self._forget(now)
        seconds = min(WINDOW_SECONDS, now - self._began)
        if seconds < SOON_SECONDS:
            return None
        return sum(count for _, count in self._slices) / seconds * _HOUR

    def _forget(self, now: float) -> None:
        while self._slices and now - self._slices[0][0] >= WINDOW_SECONDS:
            self._slices.popleft()


def idle_per_hour(
    renewed: int,
    seconds: float,
    *,
    leads: bool,
    rests: bool,
    looks: float = 0.0,
    writes: float = 0.0,
    rarity: float = 1.0,
) -> float:
    """Requests per hour of an idle host.

    Args:
        renewed: Number of leases that it renews, without the leader lease.
        seconds: Duration of a lease.
        leads: Whether it leads.
        rests: Whether its scans are at rest: it receives operator messages.
        looks: Looks for files that are not in the table, per hour.
        writes: Writes of the watermark, per hour.
        rarity: Factor of the times between its regular checks, see `PartitionManager.rarity`.
    """
    renewals = renewed * _HOUR / (RENEW * seconds)
    scans = _HOUR / (scan_pause(seconds) * sum(SCAN_JITTER) / 2 * (REST_SCANS * rarity if rests else 1))
    lead = min(seconds, LEAD_SECONDS)
    attempts = _HOUR / (RENEW * lead) if leads else _HOUR / (lead / 3 * 0.75 * (STAND_BY * rarity if rests else 1))
    return renewals + scans + attempts + looks + writes + 3 * _HOUR / (MOVED_SECONDS * rarity)
