"""A file's content: blocks that are made while others are on their way, and how it is put where no blob is yet.

An encoder writes into a `BlockWriter`, which cuts what it gets into blocks. A file is never in memory as a whole: the
next block is made in a thread while one is put, and none is kept. So a try that fails makes the blocks again, and what
they are made of has to stay until the file is committed; only where all blocks were put and just the answer about the
list of them is missing does the list alone go again.

A small file is one request; a large one goes up block by block, each request bounded in time, and appears as a whole
with its metadata when the list of blocks is written. Either way nothing that is there is replaced.
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
    """A binary file to write into, as far as encoders need one; what was written leaves it in blocks."""

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
        """Nothing to do: `rest` is what ends a file."""
        self.closed = True

    def full(self) -> Iterator[bytes]:
        """The blocks that are full, each let go as it is taken."""
        self._full.reverse()
        while self._full:
            yield self._full.pop()

    def rest(self) -> Iterator[bytes]:
        """All blocks that are left."""
        self._cut()
        return self.full()

    def _cut(self) -> None:
        if self._parts:
            self._full.append(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
            self._parts, self._open_bytes = [], 0


class Content:
    """What a file holds, made again whenever it is needed.

    Attributes:
        size: Bytes; known once all blocks were made.
        sha256: Of all blocks in a row, hexadecimal; likewise.
        check: As given.
    """

    def __init__(
        self,
        make: Callable[[], Iterator[bytes]],
        offload: Callable[..., Awaitable[Any]] = asyncio.to_thread,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Content that is not made yet.

        Args:
            make: Gives its blocks; all times the same ones.
            offload: Runs work that takes CPU time.
            check: Asked before each request of a large file; raises where it must not be put any more.
        """
        self.check = check
        self.size = 0
        self.sha256 = ""
        self._staged: tuple[str, list[str]] | None = None  # the blob and the ids of its blocks, once all were put
        self._make = make
        self._offload = offload

    @classmethod
    def of(cls, *blocks: bytes) -> "Content":
        """Content that is made already."""
        content = cls(lambda: iter(blocks), _here)
        content.size, content.sha256 = sum(map(len, blocks)), hashlib.sha256(b"".join(blocks)).hexdigest()
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
        """Its blocks in order; while one is used, the next one is made."""
        made, digest, size = self._make(), hashlib.sha256(), 0

        def following() -> bytes | None:
            block = next(made, None)
            if block is not None:
                digest.update(block)
            return block

        coming = asyncio.ensure_future(self._offload(following))
        try:
            while (block := await coming) is not None:
                size += len(block)
                coming = asyncio.ensure_future(self._offload(following))
                yield block
                del block
            self.size, self.sha256 = size, digest.hexdigest()
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def upload(blobs: BlobStore, name: str, content: Content, facts: Mapping[str, str]) -> str:
    """Put a file where no blob is yet, with `facts` and its hash as metadata, and return its etag.

    Raises:
        Conflict: A blob is there, perhaps this very one.
        Unavailable: The outcome is unknown.
        StorageError: Nothing was put.
    """
    ids = content.staged_blocks(name)
    if ids is None:
        async with aclosing(content.blocks()) as blocks:
            block: bytes | None = await anext(blocks, b"")
            following = await anext(blocks, None)
            if block is not None and following is None:
                return await put_if_absent(blobs, name, block, {**facts, "sha256": content.sha256})
            ids = []
            upload_id = uuid4()  # ids are this try's own, so that writers cannot mix
            while block is not None:
                ids.append(f"{upload_id}-{len(ids):05d}")
                content.check()
                await blobs.put_block(name, ids[-1], block)
                # The one that was put is let go before the next one is waited for: two at a time are all there are. The
                # second was asked for ahead, to see whether there is one; from the third on each comes by itself.
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
    """Put a small blob where none is yet, and return its etag; raises as `upload` does.

    Blocks of a writer that never finished make some storages answer "exists" to a single put although no reader can see
    a blob. A list of blocks does not mind them, so it is what follows then.
    """
    try:
        return await blobs.put(name, data, metadata=metadata, if_absent=True)
    except Conflict:
        if await blobs.head(name) is not None:
            raise
    block_id = f"{uuid4()}-{0:05d}"
    await blobs.put_block(name, block_id, data)
    return await _join(blobs, name, [block_id], metadata)


async def _join(blobs: BlobStore, name: str, ids: Sequence[str], metadata: Mapping[str, str]) -> str:
    return await blobs.put_block_list(name, ids, metadata=metadata, if_absent=True)


async def _here(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)
