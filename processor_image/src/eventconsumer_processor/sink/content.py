"""A file's content, encoded: its blocks, size and hash, and how it is put where no blob is yet.

An encoder writes into a `ContentWriter`, which cuts what it gets into blocks and hashes it on the way, so that a file
is never held twice. A small file is one request; a large one goes up block by block, each request bounded in time, and
appears as a whole with its metadata when the list of blocks is written. Either way nothing that is there is replaced.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from eventconsumer_processor.errors import Conflict
from eventconsumer_processor.storage import BlobStore

BLOCK_BYTES = 8 * 1024**2


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds; `len` gives its bytes."""

    blocks: tuple[bytes, ...]
    sha256: str  # of all blocks in a row, hexadecimal

    @classmethod
    def of(cls, data: bytes) -> "Content":
        """Content that is in one piece."""
        return cls((data,), hashlib.sha256(data).hexdigest())

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def __bytes__(self) -> bytes:
        """All of it in one piece, which copies it."""
        return b"".join(self.blocks)


class ContentWriter:
    """A binary file to write into, as far as encoders need one."""

    def __init__(self, block_bytes: int = BLOCK_BYTES) -> None:
        self.closed = False
        self._block_bytes = block_bytes
        self._blocks: list[bytes] = []
        self._parts: list[bytes] = []
        self._open_bytes = 0
        self._written = 0
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._hash.update(data)
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
        """Nothing to do: `content` is what ends a file."""
        self.closed = True

    def content(self) -> Content:
        """Everything that was written; the writer is empty then."""
        self._cut()
        blocks, self._blocks = tuple(self._blocks), []
        return Content(blocks, self._hash.hexdigest())

    def _cut(self) -> None:
        if self._parts:
            self._blocks.append(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
            self._parts, self._open_bytes = [], 0


async def put_if_absent(blobs: BlobStore, name: str, content: Content, metadata: Mapping[str, str]) -> str:
    """Put a file where no blob is yet, and return its etag.

    Blocks of a writer that never finished make some storages answer "exists" to a single put although nobody can see a
    blob. A list of blocks does not mind them, so it is what follows then.

    Raises:
        Conflict: A blob is there, perhaps this very one.
        Unavailable: The outcome is unknown.
        StorageError: Nothing was put.
    """
    if len(content.blocks) <= 1:
        try:
            return await blobs.put(name, bytes(content), metadata=metadata, if_absent=True)
        except Conflict:
            if await blobs.head(name) is not None:
                raise
    return await blobs.put_blocks(name, content.blocks, metadata=metadata, if_absent=True)
