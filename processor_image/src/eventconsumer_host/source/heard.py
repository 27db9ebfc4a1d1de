"""When a host last heard the hub: an event on a link, or an answer to a query. Pure.

A partition is read while its link is attached and the host hears the hub. An idle hub delivers nothing, so a host asks
it while it is silent. One answer is enough for all partitions: the pump finds a link that alone delivers nothing, and a
connection that ended is found by its missing heartbeats.
"""

from eventconsumer_api.wire.fleet import hub_quiet_seconds

MISSED = 3  # queries without an answer in a row, after which no partition counts as read


class Heard:
    """What one host hears of the hub. All times are seconds on one clock."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._asked = float("-inf")
        self._quiet = hub_quiet_seconds(1)

    def hear(self, now: float) -> None:
        """Record an event or an answer."""
        self._last = now

    def silence(self, now: float) -> float:
        """Seconds since the hub was heard; it counts from the first call where it was never heard."""
        if self._last is None:
            self._last = now
        return now - self._last

    def silent(self, now: float) -> bool:
        """Whether the hub was silent for so long that no partition counts as read."""
        return self.silence(now) >= MISSED * self._quiet

    def ask(self, now: float, hosts: int) -> bool:
        """Whether to ask the hub now; the query is counted.

        Args:
            now: The time.
            hosts: Number of hosts of the consumer, which share the rate.
        """
        self._quiet = hub_quiet_seconds(hosts)
        if self.silence(now) < self._quiet or now - self._asked < self._quiet:
            return False
        self._asked = now
        return True
