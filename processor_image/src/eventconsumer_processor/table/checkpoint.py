"""Writes checkpoints of the table, and removes the versions that they make unnecessary: readers then need few blobs.

A checkpoint of many files is large, so it is written after more versions: its cost stays a small share of all that was
written. Several hosts may write the same checkpoint: its content only depends on the log.
"""

import asyncio
import contextlib
import json
from datetime import datetime
from functools import partial

import structlog

from eventconsumer_processor.sink.content import Content, upload
from eventconsumer_processor.table.checkpoint_file import Tally, encode
from eventconsumer_processor.table.delta import LAST_CHECKPOINT, checkpoint_name
from eventconsumer_processor.table.log import AT_A_TIME, CHECKPOINT_LIMIT, COMMIT_LIMIT, TableLog
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import Conflict, NotFound

REMOVED_AT_ONCE = 2000  # old blobs that are removed after one checkpoint

log = structlog.get_logger(__name__)


async def write(log_of_table: TableLog, version: int) -> bool:
    """Write the checkpoint of a version; returns whether there is one now.

    Raises:
        ValueError: A blob of the log cannot be read.
        StorageError: A request failed.
    """
    listing = await log_of_table.listing()
    parts = listing.checkpoints.get(listing.newest_checkpoint, ())
    if listing.newest_checkpoint >= version:
        return True
    if any(name.json or (name.part is None and ".checkpoint.parquet" not in info.name) for name, info in parts):
        return False  # of the second kind, with its files in other blobs: its writer writes the next one, too
    previous = [await _content(log_of_table, info, CHECKPOINT_LIMIT) for _, info in parts]
    if (absent := listing.missing_before(version)) is not None:
        raise ValueError(f"version {absent} is missing")
    versions = [listing.commits[each] for each in range(listing.newest_checkpoint + 1, version + 1)]
    limit = asyncio.Semaphore(AT_A_TIME)

    async def read(info: BlobInfo) -> bytes:
        async with limit:
            return await _content(log_of_table, info, COMMIT_LIMIT)

    commits = await asyncio.gather(*map(read, versions))
    tally = Tally()
    content = Content(partial(encode, previous, commits, tally), log_of_table.offload)
    try:
        await upload(log_of_table.blobs, f"{log_of_table.folder}{checkpoint_name(version)}", content, {})
    except Conflict:  # another leader wrote it: with the same actions
        return True
    facts = {"version": version, "size": tally.actions, "sizeInBytes": content.size, "numOfAddFiles": tally.files}
    await _name(log_of_table, version, json.dumps(facts).encode())
    log.info("checkpoint of the table written", version=version, files=tally.files, bytes=content.size)
    return True


async def _name(log_of_table: TableLog, version: int, facts: bytes) -> None:
    """Name a checkpoint as the last one, unless a newer one is named: this host may have been paused."""
    named, etag = await log_of_table.last_checkpoint()
    if named < version:
        with contextlib.suppress(Conflict, NotFound):  # another writer has named one
            name = f"{log_of_table.folder}{LAST_CHECKPOINT}"
            await log_of_table.blobs.put(name, facts, if_match=etag, if_absent=etag is None)


async def remove_old_versions(log_of_table: TableLog, before: datetime) -> int:
    """Remove the versions that a checkpoint from before a time makes unnecessary; returns their number.

    Only a checkpoint up to the one that `_last_checkpoint` names counts: readers may begin there, and writers learn
    from it that a version below is free again.

    Raises:
        StorageError: A request failed.
    """
    named, _ = await log_of_table.last_checkpoint()
    listing = await log_of_table.listing()
    old = [
        version
        for version, parts in listing.checkpoints.items()
        if version <= named and all(info.last_modified < before for _, info in parts)
    ]
    if not old:
        return 0
    kept = max(old)
    blobs = {version: [info] for version, info in listing.commits.items() if version < kept}
    for version, parts in listing.checkpoints.items():
        if version < kept:
            blobs.setdefault(version, []).extend(info for _, info in parts)
    limit = asyncio.Semaphore(AT_A_TIME)

    async def remove(info: BlobInfo) -> None:
        async with limit:
            try:
                await log_of_table.blobs.remove(info.name, if_match=info.etag)
            except (NotFound, Conflict):  # another leader removed it
                return

    found = [info for version in sorted(blobs) for info in blobs[version]][:REMOVED_AT_ONCE]
    await asyncio.gather(*map(remove, found))
    return len(found)


async def _content(log_of_table: TableLog, info: BlobInfo, limit: int) -> bytes:
    blob = await log_of_table.blobs.read(info.name, limit)
    if blob is None or blob.info.size > limit:
        raise ValueError(f"blob {info.name} has vanished, or has more than {limit} bytes")
    return blob.data
