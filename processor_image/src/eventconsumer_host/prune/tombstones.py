"""Replaces a file by a tombstone: the same blob, empty, with the same metadata, the time, and the size that it had.

A slot's name is never deleted, because a free name could be written again.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, NotFound, Unavailable

AT_A_TIME = 8  # requests
ATTEMPTS = 5
FIRST_PAUSE = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class CapturedContent:
    """A blob with a file's events, in the layout Capture: it is removed after its record became a tombstone."""

    path: str
    etag: str


@dataclass(frozen=True, slots=True)
class Doomed:
    """A file to be replaced.

    Attributes:
        name: Of the slot's blob.
        etag: Of that blob; empty: the blob is not compared.
        content: Layout Capture: the blob with the events.
    """

    name: str
    etag: str
    content: CapturedContent | None = None


async def replace_with_tombstone(store: BlobStore, file: Doomed, now: datetime) -> bool:
    """Replace one file; False if it changed after it was planned.

    Args:
        store: The container.
        file: The file; one that is a tombstone already is no error.
        now: Wall clock; written into the tombstone.

    Raises:
        StorageError: A request failed in all attempts; run it again.
    """
    for attempt in range(ATTEMPTS):
        try:
            info = await store.head(file.name)
            if info is None:
                return False
            keys = {key.lower() for key in info.metadata}
            if "tombstone" not in keys:
                if file.etag and info.etag.strip('"') != file.etag.strip('"'):
                    return False
                facts = {"tombstone": now.astimezone(UTC).isoformat(timespec="seconds")}
                if "size" not in keys:  # the record of a data file has it
                    facts["size"] = str(info.size)
                await store.put(file.name, b"", metadata={**info.metadata, **facts}, if_match=info.etag)
            if file.content:
                await remove_content(store, file.content)
        except Conflict:
            continue  # perhaps our own request, whose response was lost: check again
        except Unavailable:
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(FIRST_PAUSE * 2**attempt)
        else:
            return True
    return False


async def remove_content(store: BlobStore, content: CapturedContent) -> None:
    """Remove the blob with the events of a tombstone; no error if it does not exist.

    Raises:
        StorageError: The request failed, or the blob has changed.
    """
    etag = content.etag.strip('"')
    try:
        await store.remove(content.path, if_match=f'"{etag}"')
    except NotFound:
        return
