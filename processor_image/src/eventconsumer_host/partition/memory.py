"""The host's memory for events, shared by its pumps: limited in bytes, for any size and number of events.

Each pump reports the size of its buffer. While the sum is at the limit, no pump receives, and the pump with the largest
buffer writes it to a file early. So a backlog on many partitions leads to smaller files, not to more memory. A buffer
that is being committed still counts, but while buffers of half of the limit are being committed, no other pump has to
flush. A receive in progress counts as many bytes as the one before: otherwise all pumps would see free memory at once.

Events wait on links before a pump receives them. They get the memory that the buffers do not use, at least an eighth of
the total.

Encoding and uploading files needs memory for a few blocks per file besides the buffers. It is limited in bytes too: two
large files at a time, or many small ones, so that a stalled upload of a large file does not delay small files.

A part of the memory is lent while a child process reads the table (`confined`): then files are smaller.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

from eventconsumer_host.sink.content import BLOCK_BYTES

WAITING_PART = 8  # an eighth of the memory is reserved for events that wait on links
BLOCKS = 3  # of a file in memory: one being uploaded, and the blocks being encoded
WRITING_BYTES = 2 * BLOCKS * BLOCK_BYTES


class Memory:
    """The memory for events, by partition.

    Args:
        size: Most bytes in buffers and on links.
    """

    def __init__(self, size: int) -> None:
        self._whole = size
        self._lent = 0
        self._kept: dict[str, int] = {}
        self._used = 0
        self._coming: dict[str, int] = {}
        self._leaving: set[str] = set()
        self._less = asyncio.Event()
        self._writers_need = 0  # bytes that the current encoding and uploads may need
        self._next_writer = asyncio.Lock()  # the next file waits for its bytes; files are served in order
        self._writer_left = asyncio.Event()

    @property
    def _size(self) -> int:
        return self._whole - self._lent

    @property
    def _limit(self) -> int:
        """Of the buffers."""
        return self._size - self._size // WAITING_PART

    @contextlib.contextmanager
    def lent(self, size: int) -> Iterator[None]:
        """Lend `size` bytes to something else, at most half of the memory."""
        size = min(size, self._whole // 2)
        self._lent += size
        try:
            yield
        finally:
            self._lent -= size
            self._less.set()

    @property
    def used(self) -> int:
        """Bytes in the buffers of all partitions."""
        return self._used

    @property
    def for_waiting(self) -> int:
        """Bytes that may wait on links at present."""
        return self._size - min(self._used, self._limit)

    @property
    def full(self) -> bool:
        """Whether no pump may receive at present."""
        return self.used + sum(self._coming.values()) >= self._limit

    def keep(self, partition: str, size: int) -> None:
        """Record that the buffer of a partition has `size` bytes; 0 removes it."""
        before = self._kept.get(partition, 0)
        self._used += size - before
        if size < before:
            self._less.set()
        if size:
            self._kept[partition] = size
        else:
            self._kept.pop(partition, None)

    def must_flush(self, partition: str) -> bool:
        """Whether this partition's buffer must be written to a file now."""
        if self.used < self._limit or partition not in self._kept or partition in self._leaving:
            return False
        staying = [size for key, size in self._kept.items() if key not in self._leaving]
        return sum(staying) >= self._limit / 2 and self._kept[partition] == max(staying)

    @contextlib.contextmanager
    def coming(self, partition: str, size: int) -> Iterator[None]:
        """Count `size` expected bytes while a partition receives."""
        self._coming[partition] = size
        try:
            yield
        finally:
            del self._coming[partition]
            self._less.set()

    @contextlib.contextmanager
    def leaving(self, partition: str) -> Iterator[None]:
        """Mark a partition's buffer as being committed."""
        self._leaving.add(partition)
        try:
            yield
        finally:
            self._leaving.discard(partition)

    @contextlib.asynccontextmanager
    async def writing(self, size: int) -> AsyncIterator[None]:
        """Reserve memory to encode and upload a file of `size` bytes of events; waits until it is available."""
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
        """Wait until memory was released, at most `seconds`."""
        self._less.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._less.wait()
