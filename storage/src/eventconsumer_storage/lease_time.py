"""How long a lease can be relied on without being told.

A renewal counts from the moment its request was sent, by a clock that also counts while the machine sleeps
(CLOCK_BOOTTIME), and the holder gives up a margin before the lease could end. So a holder that was frozen, or that
storage does not answer, stops by itself before another one can hold the lease.
"""

import time
from collections.abc import Callable


def boottime() -> float:
    """Seconds since boot, time in suspend included; unaffected by changes of the wall clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Deadline:
    """Until when a lease is held for certain.

    Args:
        seconds: Duration of the lease.
        margin: Seconds before its end at which the holder gives up.
        since: When the request was sent that took the lease, by `clock`.
        clock: Seconds.
    """

    def __init__(self, seconds: float, margin: float, since: float, clock: Callable[[], float] = boottime) -> None:
        self._trusted = seconds - margin
        self._end = since + self._trusted
        self.clock = clock

    @property
    def left(self) -> float:
        """Seconds until the holder must have stopped; negative behind it."""
        return self._end - self.clock()

    @property
    def is_over(self) -> bool:
        """Whether the lease may have ended."""
        return self.clock() >= self._end

    def renewed(self, sent: float) -> None:
        """A request that was sent at `sent` renewed the lease."""
        self._end = sent + self._trusted
