"""The bytes of events that may wait on the links of a host: one budget, in equal parts for the open links.

Events are prefetched, so that a reader does not wait for the hub. A few MiB per link are enough for that, and for a low
cost per event. If many links share a small budget, each link has less.
"""

from collections.abc import Callable

LINK_BYTES = 4 * 1024 * 1024  # limit of one link: a higher limit gives no more throughput
WAITING_BYTES = 32 * 1024 * 1024  # default for all links


class Budget:
    """The budget of all links.

    Args:
        whole: Returns the bytes for all links at present. A link may exceed its part by one event of any size.
    """

    def __init__(self, whole: Callable[[], int] = lambda: WAITING_BYTES) -> None:
        self._whole = whole
        self._links: set[object] = set()

    @property
    def each(self) -> int:
        """Bytes that may wait on one link at present."""
        return min(LINK_BYTES, self._whole() // max(1, len(self._links)))

    @property
    def many(self) -> int:
        """Bytes to take from a link at once: the other half is for events that arrive in the meantime."""
        return self.each // 2

    def join(self, link: object) -> None:
        """Add an open link."""
        self._links.add(link)

    def leave(self, link: object) -> None:
        """Remove a link; no effect if it was never added."""
        self._links.discard(link)
