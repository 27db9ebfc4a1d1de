"""The time for which a lease is certainly held, without a response of storage.

A renewal counts from the time its request was sent, by a clock that also counts while the machine is suspended
(CLOCK_BOOTTIME), and the holder stops some margin before the lease could end. So a holder that was frozen, or gets no
response from storage, stops by itself before another one can acquire the lease.
"""

import time
from collections.abc import Callable


def boottime() -> float:
    """Seconds since boot, time in suspend included; unaffected by changes of the wall clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Deadline:
    """The time until which a lease is certainly held.

    Args:
        seconds: Duration of the lease.
        margin: Seconds before its end at which the holder stops.
        since: Time at which the request that acquired the lease was sent, by `clock`.
        clock: Seconds.
    """

    def __init__(self, seconds: float, margin: float, since: float, clock: Callable[[], float] = boottime) -> None:
        self._trusted = seconds - margin
        self._end = since + self._trusted
        self.clock = clock

    @property
    def left(self) -> float:
        """Seconds until the holder must have stopped; negative afterwards."""
        return self._end - self.clock()

    @property
    def is_over(self) -> bool:
        """Whether the lease may have ended."""
        return self.clock() >= self._end

    def renewed(self, sent: float) -> None:
        """Record that a request sent at `sent` renewed the lease."""
        self._end = sent + self._trusted
