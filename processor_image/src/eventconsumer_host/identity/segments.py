"""The segments of a chain: the hub of each part of it (`eventconsumer_api.wire.identity.SegmentRecord`).

The first host writes segment 1. If a hub returns with other events under sequence numbers that are in files,
`eventconsumer hub accept` ends every chain of the newest segment and writes the next one: its files have a separate
folder (`segment`), so that segments are never mixed.
"""

import contextlib
from datetime import datetime

from pydantic import ValidationError

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.identity import RECORD_MAX_BYTES, HubName, SegmentRecord, segment_name
from eventconsumer_host import problems
from eventconsumer_host.sink.slots import segment_id
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Damaged, NotFound


async def list_segments(sink: BlobStore, prefix: str) -> list[SegmentRecord]:
    """All segments in order; empty if no host has registered yet.

    Args:
        sink: The container of the files.
        prefix: Their folder.

    Raises:
        Damaged: One is missing or cannot be parsed.
        StorageError: A request failed.
    """
    folder = segment_name(prefix, 0).rpartition("/")[0] + "/"
    try:
        names = sorted(info.name for info in await sink.list(folder))
    except NotFound:  # the container
        return []
    found = [await _read(sink, name) for name in names]
    for number, segment in enumerate(found, start=1):
        if segment.number != number:
            raise Damaged(f"the record of the segment, blob {segment_name(prefix, number)}, is missing: restore it")
    return found


async def is_superseded(sink: BlobStore, prefix: str, segment: SegmentRecord) -> bool:
    """Whether there is a newer segment; raises StorageError."""
    return await sink.head(segment_name(prefix, segment.number + 1)) is not None


async def current(sink: BlobStore, prefix: str, info: HubInfo, now: datetime) -> list[SegmentRecord]:
    """All segments in order; segment 1 is written if there is none.

    Args:
        sink: The container of the files.
        prefix: Their folder.
        info: The hub to drain.
        now: Wall clock.

    Raises:
        Blocked: The files belong to a hub with other names, or were written by a version without segments.
        StorageError: A request failed, or a record cannot be parsed.
    """
    found = await list_segments(sink, prefix)
    if not found:
        if await sink.head(f"{prefix}/_hub.json") is not None:
            problem = problems.development_layout(prefix)
            raise Blocked(problem.field, Reason(problem.reason), problem.message)
        with contextlib.suppress(Conflict):
            await write(sink, prefix, first(info, now))
        found = await list_segments(sink, prefix)
        if not found:
            raise Damaged(f"the record {segment_name(prefix, 1)} was removed at once")
    check_names(found[-1], info)
    return found


def first(info: HubInfo, now: datetime) -> SegmentRecord:
    """PURE: segment 1 of a chain of this hub."""
    return SegmentRecord(number=1, segment_id=segment_id(info), hub=name_of(info), since=now)


def check_names(segment: SegmentRecord, info: HubInfo) -> None:
    """Verify that a segment belongs to the hub with these names.

    Raises:
        Blocked: It belongs to another one.
    """
    if (segment.hub.namespace, segment.hub.name.lower()) != (info.namespace, info.name.lower()):
        problem = problems.another_hub(segment.hub, info)
        raise Blocked(problem.field, Reason(problem.reason), problem.message)


async def write(sink: BlobStore, prefix: str, segment: SegmentRecord) -> None:
    """Write the record of a new segment.

    Raises:
        Conflict: A segment of this number exists.
        StorageError: It was not written, or the outcome is unknown.
    """
    data = segment.to_json(indent=1).encode()
    await sink.put(segment_name(prefix, segment.number), data, if_absent=True)


def name_of(info: HubInfo) -> HubName:
    """PURE: a hub in the form of records."""
    return HubName(namespace=info.namespace, name=info.name, created_at=info.created_at)


async def _read(sink: BlobStore, name: str) -> SegmentRecord:
    blob = await sink.read(name, RECORD_MAX_BYTES)
    try:
        return SegmentRecord.model_validate_json(blob.data if blob else b"")
    except ValidationError:
        raise Damaged(f"cannot parse the record of the segment, blob {name}: restore it from a backup") from None
