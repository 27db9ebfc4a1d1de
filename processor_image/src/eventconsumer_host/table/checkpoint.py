"""Writes checkpoints of the table, and removes the versions that they make unnecessary: readers then need few blobs.

A checkpoint of many files is large, so it is written after more versions: its cost stays a small share of all that was
written. Several hosts may write the same checkpoint: its content only depends on the log. It is encoded in a child
(`confined`), which reads the versions that one checkpoint can take in its memory (`COMMITS_BYTES`), and the previous
checkpoint in parts.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

import structlog

from eventconsumer_host.sink.content import Content, upload
from eventconsumer_host.table.delta import LAST_CHECKPOINT, checkpoint_name
from eventconsumer_host.table.log import (
    AT_A_TIME,
    CHECKPOINT_LIMIT,
    COMMIT_LIMIT,
    SMALL_LIMIT,
    LogListing,
    TableLog,
)
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.confined import reader
from eventconsumer_storage.confined.reader import Blobs, Whole
from eventconsumer_storage.errors import Conflict, NotFound

REMOVED_AT_ONCE = 2000  # old blobs that are removed after one checkpoint
COMMITS_BYTES = 24 * 1024**2  # of versions in one checkpoint: they take 80 MB in the child; 60,000 files need as much
READ_AHEAD_BYTES = 4 * 1024**2  # of small versions that are read at the same time

log = structlog.get_logger(__name__)


async def write(log_of_table: TableLog, version: int) -> bool:
    """Write the checkpoint of a version; returns whether there is one now.

    After many large versions, checkpoints of versions before it are written first.

    Raises:
        ValueError: A blob of the log cannot be read.
        StorageError: A request failed.
    """
    while True:
        listing = await log_of_table.listing()
        if listing.newest_checkpoint >= version:
            return True
        parts = listing.checkpoints.get(listing.newest_checkpoint, ())
        if any(name.json or (name.part is None and ".checkpoint.parquet" not in info.name) for name, info in parts):
            return False  # of the second kind, with its files in other blobs: its writer writes the next one, too
        if (absent := listing.missing_before(version)) is not None:
            raise ValueError(f"version {absent} is missing")
        written, exists = await _write(log_of_table, listing, version)
        if exists or written == version:
            return written == version


async def _write(log_of_table: TableLog, listing: LogListing, wanted: int) -> tuple[int, bool]:
    """Write the checkpoint of version `wanted`, or of one before it with a part of the versions.

    Returns:
        Its version, and whether it existed: another leader wrote it, with the same actions.
    """
    parts = [info for _, info in listing.checkpoints.get(listing.newest_checkpoint, ())]
    versions: list[BlobInfo] = []
    version, size = listing.newest_checkpoint, 0
    while version < wanted and (not versions or size + listing.commits[version + 1].size <= COMMITS_BYTES):
        version += 1
        versions.append(listing.commits[version])
        size += versions[-1].size
    for info in parts:
        _check_size(info, CHECKPOINT_LIMIT)
    for info in versions:
        _check_size(info, COMMIT_LIMIT)
    sources = [*(reader.blob(log_of_table.blobs, part) for part in parts), *await _sources(log_of_table, versions)]
    tally: dict[str, int] = {}

    def encoded() -> AsyncGenerator[bytes, None]:
        return log_of_table.confined.run(
            "eventconsumer_host.table.checkpoint_file:encode",
            sources,
            most=CHECKPOINT_LIMIT,
            done=tally.update,
            arguments={"parts": len(parts)},
        )

    content = Content.streamed(encoded)
    try:
        await upload(log_of_table.blobs, f"{log_of_table.folder}{checkpoint_name(version)}", content, {})
    except Conflict:
        return version, True
    facts = {"version": version, "size": tally["actions"], "sizeInBytes": content.size, "numOfAddFiles": tally["files"]}
    await _name(log_of_table, version, json.dumps(facts).encode())
    log.info("checkpoint of the table written", version=version, files=tally["files"], bytes=content.size)
    return version, False


async def _sources(log_of_table: TableLog, versions: Sequence[BlobInfo]) -> list[Blobs]:
    """The versions; small ones are read at the same time, as far as they fit into memory."""
    limit, left = asyncio.Semaphore(AT_A_TIME), READ_AHEAD_BYTES

    async def read(info: BlobInfo) -> Blobs:
        async with limit:
            blob = await log_of_table.blobs.read(info.name, info.size)
        if blob is None or blob.info.etag != info.etag:
            raise ValueError(f"blob {info.name} has vanished")
        return Whole(blob.data)

    async def later(info: BlobInfo) -> Blobs:
        return reader.blob(log_of_table.blobs, info)

    found = []
    for info in versions:
        ahead = info.size <= min(SMALL_LIMIT, left)
        left -= info.size if ahead else 0
        found.append(read(info) if ahead else later(info))
    return await asyncio.gather(*found)


async def _name(log_of_table: TableLog, version: int, facts: bytes) -> None:
    """Name a checkpoint as the last one, unless a newer one is named: this host may have been paused."""
    named, etag = await log_of_table.last_checkpoint()
    if named < version:
        with contextlib.suppress(Conflict, NotFound):  # another writer has named one
            name = f"{log_of_table.folder}{LAST_CHECKPOINT}"
            await log_of_table.blobs.put(name, facts, if_match=etag, if_absent=etag is None)


async def remove_old_versions(log_of_table: TableLog, before: datetime, below: int) -> int:
    """Remove the versions that an old checkpoint makes unnecessary; returns their number.

    A checkpoint is old if it is from before a time, or of a version up to `below`. Only a checkpoint up to the one that
    `_last_checkpoint` names counts: readers may begin there, and writers learn from it that a version below is free
    again.

    Raises:
        StorageError: A request failed.
    """
    named, _ = await log_of_table.last_checkpoint()
    listing = await log_of_table.listing()
    old = [
        version
        for version, parts in listing.checkpoints.items()
        if version <= named and (version <= below or all(info.last_modified < before for _, info in parts))
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


def _check_size(info: BlobInfo, limit: int) -> None:
    if info.size > limit:
        raise ValueError(f"blob {info.name} has more than {limit} bytes")
