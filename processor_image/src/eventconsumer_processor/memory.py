"""The host's memory for events, shared by its pumps: bounded in bytes, whatever the events' size or number.

A pump tells how much it keeps. While the whole is at the limit nobody receives, and the pump that keeps most makes its
buffer a file early; so a backlog on many partitions costs smaller files, never memory. What is being committed still
counts, but once half of the limit is on its way out no further pump has to follow. What a pump is about to receive
counts as much as it received last: else all pumps would find room at once, and each would bring a batch.
"""

import asyncio
import contextlib
from collections.abc import Iterator

WRITERS = 2  # files made and put at a time: each needs memory for a few blocks besides its buffer


class Memory:
    """Bytes kept by partition."""

    def __init__(self, limit: int) -> None:
        self.writing = asyncio.Semaphore(WRITERS)
        self._limit = limit
        self._kept: dict[str, int] = {}
        self._coming: dict[str, int] = {}
        self._leaving: set[str] = set()
        self._less = asyncio.Event()

    @property
    def used(self) -> int:
        """Bytes kept by all partitions."""
        return sum(self._kept.values())

    @property
    def full(self) -> bool:
        """Whether nothing may be received now."""
        return self.used + sum(self._coming.values()) >= self._limit

    def keep(self, partition: str, size: int) -> None:
        """Tell that a partition keeps `size` bytes now; 0 forgets it."""
        if size < self._kept.get(partition, 0):
            self._less.set()
        if size:
            self._kept[partition] = size
        else:
            self._kept.pop(partition, None)

    def must_flush(self, partition: str) -> bool:
        """Whether this partition's buffer has to become a file now."""
        staying = {key: size for key, size in self._kept.items() if key not in self._leaving}
        if partition not in staying or self.used < self._limit or sum(staying.values()) < self._limit / 2:
            return False
        return staying[partition] == max(staying.values())

    @contextlib.contextmanager
    def coming(self, partition: str, size: int) -> Iterator[None]:
        """While a partition receives, probably `size` bytes."""
        self._coming[partition] = size
        try:
            yield
        finally:
            del self._coming[partition]
            self._less.set()

    @contextlib.contextmanager
    def leaving(self, partition: str) -> Iterator[None]:
        """While a partition's buffer is being committed."""
        self._leaving.add(partition)
        try:
            yield
        finally:
            self._leaving.discard(partition)

    async def room(self, seconds: float) -> None:
        """Wait until something was let go, at most `seconds`."""
        self._less.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._less.wait()
