"""PURE except its clock: a recurring problem is logged once, then at intervals with the count, then its end."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

REPEAT_SECONDS = 300.0


@dataclass
class _Trouble:
    text: str
    said: float
    times: int = 1


class LogThrottle:
    """Counts recurring problems, to limit their log lines.

    if times := repeats.again("leases", str(error)):
        log.warning("the leases cannot be listed; the host keeps trying", error=str(error), times=times)
    ...
    if times := repeats.over("leases"):
        log.info("the leases can be listed again", times=times)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, seconds: float = REPEAT_SECONDS) -> None:
        """Start without problems.

        Args:
            clock: Seconds, from any start.
            seconds: How often a recurring problem is logged.
        """
        self._clock = clock
        self._seconds = seconds
        self._troubles: dict[Hashable, _Trouble] = {}

    def again(self, what: Hashable, text: str = "") -> int:
        """Count a failure.

        Args:
            what: The failing operation.
            text: The cause; a new cause is logged at once.

        Returns:
            The number of failures if it is to be logged now; otherwise 0.
        """
        now = self._clock()
        found = self._troubles.get(what)
        if found is None:
            self._troubles[what] = _Trouble(text, now)
            return 1
        found.times += 1
        if found.text == text and now - found.said < self._seconds:
            return 0
        found.text, found.said = text, now
        return found.times

    def over(self, what: Hashable) -> int:
        """Count a success.

        Returns:
            The number of failures before it; 0: nothing to log.
        """
        found = self._troubles.pop(what, None)
        return found.times if found else 0
