"""The content of a file, as blocks that are encoded during the upload, and its upload if no blob exists yet.

An encoder writes to a `BlockWriter`, which splits the data into blocks. A file is never in memory as a whole: a thread
encodes the next block while the current one is uploaded, and no block is kept. So a failed attempt encodes the blocks
again, and the events are kept until the file is committed. Only if all blocks were uploaded, and the outcome of the
block list is unknown, does the next attempt send the block list alone.

A small file is one request. A large file is uploaded block by block, each request with a time limit; it appears as a
whole with its metadata when the block list is written. In both cases no existing blob is replaced.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Refused

BLOCK_BYTES = 8 * 1024**2


class BlockWriter:
    """The part of a writable binary file that encoders need; returns the written data in blocks."""

    def __init__(self, block_bytes: int = BLOCK_BYTES) -> None:
        self.closed = False
        self._block_bytes = block_bytes
        self._full: list[bytes] = []
        self._parts: list[bytes] = []
        self._open_bytes = 0
        self._written = 0

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._parts.append(bytes(data))
        self._open_bytes += len(data)
        self._written += len(data)
        if self._open_bytes >= self._block_bytes:
            self._cut()
        return len(data)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._written

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Mark as closed; `rest` returns the last blocks."""
        self.closed = True

    def full(self) -> Iterator[bytes]:
        """The full blocks; each is released when it is taken."""
        self._full.reverse()
        while self._full:
            yield self._full.pop()

    def rest(self) -> Iterator[bytes]:
        """All remaining blocks."""
        self._cut()
        return self.full()

    def _cut(self) -> None:
        if self._parts:
            self._full.append(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
            self._parts, self._open_bytes = [], 0


class Content:
    """The content of a file, encoded again for each attempt.

    Attributes:
        size: Bytes; known when all blocks were encoded.
        sha256: Hash of all blocks, hexadecimal; known when all blocks were encoded.
        check: See `__init__`.
    """

    def __init__(
        self,
        make: Callable[[], Iterator[bytes]],
        offload: Callable[..., Awaitable[Any]] = asyncio.to_thread,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Create content without encoding it.

        Args:
            make: Returns the blocks; each call returns the same blocks.
            offload: Runs work that takes CPU time.
            check: Called before each request of a large file; raises if the upload must stop.
        """
        self.check = check
        self.size = 0
        self.sha256 = ""
        self._staged: tuple[str, list[str]] | None = None  # the blob and the ids of its blocks, once all were put
        self._make = make
        self._stream: Callable[[], AsyncGenerator[bytes, None]] | None = None  # instead of `_make`
        self._offload = offload

    @classmethod
    def of(cls, *blocks: bytes) -> "Content":
        """Content of existing blocks."""
        content = cls(lambda: iter(blocks), _here)
        content.size, content.sha256 = sum(map(len, blocks)), hashlib.sha256(b"".join(blocks)).hexdigest()
        return content

    @classmethod
    def streamed(cls, make: Callable[[], AsyncGenerator[bytes, None]]) -> "Content":
        """Content that another process encodes; `make` as in `__init__`."""
        content = cls(lambda: iter(()))
        content._stream = make
        return content

    def staged_blocks(self, name: str) -> list[str] | None:
        """Ids of the blocks that were all put to blob `name`; None where they were not."""
        return self._staged[1] if self._staged and self._staged[0] == name else None

    def stage(self, name: str, ids: list[str]) -> None:
        """Record that all blocks were put to blob `name`, under these ids."""
        self._staged = name, ids

    def unstage(self) -> None:
        """Record that storage has no blocks of this content."""
        self._staged = None

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """The blocks in order; while one is used, the next one is encoded."""
        digest, size = hashlib.sha256(), 0
        stream = self._stream() if self._stream else None
        made = self._make()

        def following() -> bytes | None:
            block = next(made, None)
            if block is not None:
                digest.update(block)
            return block

        async def received() -> bytes | None:
            assert stream is not None  # noqa: S101 - the caller has asked
            block = await anext(stream, None)
            if block is not None:
                digest.update(block)
            return block

        def begin() -> asyncio.Future[bytes | None]:
            return asyncio.ensure_future(received() if stream else self._offload(following))

        coming = begin()
        try:
            while (block := await coming) is not None:
                size += len(block)
                coming = begin()
                yield block
                del block
            self.size, self.sha256 = size, digest.hexdigest()
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
            if stream:
                await stream.aclose()


async def upload(blobs: BlobStore, name: str, content: Content, facts: Mapping[str, str]) -> str:
    """Upload a file if no blob exists, with `facts` and its hash as metadata, and return its etag.

    Raises:
        Conflict: A blob exists, possibly this file.
        Unavailable: The outcome is unknown.
        StorageError: The file was not written.
    """
    ids = content.staged_blocks(name)
    if ids is None:
        async with aclosing(content.blocks()) as blocks:
            block: bytes | None = await anext(blocks, b"")
            following = await anext(blocks, None)
            if block is not None and following is None:
                return await put_if_absent(blobs, name, block, {**facts, "sha256": content.sha256})
            ids = []
            upload_id = uuid4()  # unique for each attempt, so that blocks of two writers do not mix
            while block is not None:
                ids.append(f"{upload_id}-{len(ids):05d}")
                content.check()
                await blobs.put_block(name, ids[-1], block)
                # The uploaded block is released before the next one is awaited: at most two are in memory. The second
                # block was requested early, to detect a file of one block.
                block, following = following, None
                block = block or await anext(blocks, None)
        content.stage(name, ids)
    content.check()
    try:
        return await _join(blobs, name, ids, {**facts, "sha256": content.sha256})
    except Refused:
        content.unstage()  # storage does not have the blocks any more
        raise


async def put_if_absent(blobs: BlobStore, name: str, data: bytes, metadata: Mapping[str, str]) -> str:
    """Write a small blob if none exists, and return its etag; raises as `upload`.

    If an unfinished upload left uncommitted blocks, some storage services reject a single put with "exists" although
    readers see no blob. A block list succeeds there, so it is tried next.
    """
    try:
        return await blobs.put(name, data, metadata=metadata, if_absent=True)
    except Conflict:
        found = await blobs.head(name)
        if found is not None and not found.maybe_staged:
            raise
    block_id = f"{uuid4()}-{0:05d}"
    await blobs.put_block(name, block_id, data)
    return await _join(blobs, name, [block_id], metadata)


async def _join(blobs: BlobStore, name: str, ids: Sequence[str], metadata: Mapping[str, str]) -> str:
    return await blobs.put_block_list(name, ids, metadata=metadata, if_absent=True)


async def _here(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)
