"""How many bytes of events may wait on the links of a host: one budget, in equal parts for the links that are open.

What waits came before its reader asked for it, so that no reader has to wait for the hub. A few MiB a link do that, and
so large a batch costs little for each event; where many links share little, each has less.
"""

from collections.abc import Callable

LINK_BYTES = 4 * 1024 * 1024  # for one link at most: more makes nothing faster
WAITING_BYTES = 32 * 1024 * 1024  # for all, unless set otherwise


class Budget:
    """Bytes for links.

    Args:
        whole: How many all together may have now. Each may have one event more than its part, however large.
    """

    def __init__(self, whole: Callable[[], int] = lambda: WAITING_BYTES) -> None:
        self._whole = whole
        self._links: set[object] = set()

    @property
    def each(self) -> int:
        """Bytes that may wait on one link now."""
        return min(LINK_BYTES, self._whole() // max(1, len(self._links)))

    @property
    def many(self) -> int:
        """Bytes that are enough to be taken from a link at once: what comes meanwhile has the other half."""
        return self.each // 2

    def join(self, link: object) -> None:
        """Tell that a link is open."""
        self._links.add(link)

    def leave(self, link: object) -> None:
        """Tell that it is not; it may never have been."""
        self._links.discard(link)
