"""The host's memory for events, shared by its pumps: bounded in bytes, whatever the events' size or number.

A pump tells how much it keeps. While the whole is at the limit no pump receives, and the pump that keeps most makes its
buffer a file early; so a backlog on many partitions costs smaller files, never memory. What is being committed still
counts, but once half of the limit is on its way out no further pump has to follow. What a pump is about to receive
counts as much as it received last: else all pumps would find room at once, and each would bring a batch.

Events wait on links before a pump receives them. What the pumps do not keep is for these, and an eighth always is: so
while there is room links bring much at a time, and once there is none all of it together is within what was given.

Making and putting files needs memory besides the buffers, for a few blocks each, and is bounded by bytes too: two large
files at a time, or many small ones, so that one that storage lets hang does not hold up the small ones.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

from eventconsumer_processor.sink.content import BLOCK_BYTES

WAITING_PART = 8  # an eighth of the memory is for events that wait on links, whatever pumps keep
BLOCKS = 3  # of a file: one on its way, and what is made meanwhile
WRITING_BYTES = 2 * BLOCKS * BLOCK_BYTES


class Memory:
    """Bytes kept by partition.

    Args:
        size: Bytes that pumps keep, and that wait for them, at most.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._limit = size - size // WAITING_PART  # of what pumps keep
        self._kept: dict[str, int] = {}
        self._used = 0
        self._coming: dict[str, int] = {}
        self._leaving: set[str] = set()
        self._less = asyncio.Event()
        self._writers_need = 0  # bytes that files being made and put may need
        self._next_writer = asyncio.Lock()  # whoever waits for them, in order
        self._writer_left = asyncio.Event()

    @property
    def used(self) -> int:
        """Bytes kept by all partitions."""
        return self._used

    @property
    def for_waiting(self) -> int:
        """Bytes that may wait on links now."""
        return self._size - min(self._used, self._limit)

    @property
    def full(self) -> bool:
        """Whether nothing may be received now."""
        return self.used + sum(self._coming.values()) >= self._limit

    def keep(self, partition: str, size: int) -> None:
        """Tell that a partition keeps `size` bytes now; 0 forgets it."""
        before = self._kept.get(partition, 0)
        self._used += size - before
        if size < before:
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

    @contextlib.asynccontextmanager
    async def writing(self, size: int) -> AsyncIterator[None]:
        """While a file of `size` bytes of events is made and put; waits for its turn first."""
        needed = BLOCKS * min(size, BLOCK_BYTES)
        async with self._next_writer:
            while self._writers_need + needed > WRITING_BYTES:
                self._writer_left.clear()
                await self._writer_left.wait()
            self._writers_need += needed
        try:
            yield
        finally:
            self._writers_need -= needed
            self._writer_left.set()

    async def room(self, seconds: float) -> None:
        """Wait until something was let go, at most `seconds`."""
        self._less.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._less.wait()
