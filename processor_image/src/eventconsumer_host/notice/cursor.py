"""The cursor of notices, `<prefix>/_notices.json`: up to where the endpoint has acknowledged each partition's notices.

It is written after the acknowledgement, so a host that takes over repeats some notices and skips none. The cursor is at
a place of its own for each partition, because a partition may be in an older segment while others are in the next one.
Two hosts at once repeat notices: each write names the version that it replaces, so the slower host reads the cursor
again and continues at the later place of each partition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog
from pydantic import AwareDatetime, Field, ValidationError

from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.identity import RECORD_MAX_BYTES
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Damaged, StorageError

SAVE_SECONDS = 1.0  # between two writes

log = structlog.get_logger(__name__)


class NoticesRecord(WireDocument):
    """The content of `_notices.json`."""

    chain: str = Field(description="Identity of the chain of the files.")
    written_at: AwareDatetime = Field(description="Time of the write, by the clock of the host.")
    segment_id: str = Field(description="The segment of all partitions that are not in `segments`.")
    next: dict[str, int] = Field(
        description="Partition id -> start of the first file without an acknowledged notice; absent: the first file of "
        "the segment."
    )
    segments: dict[str, str] = Field(
        default={}, description="Partition id -> id of its segment, if it is not `segmentId`."
    )


@dataclass(frozen=True, slots=True)
class NoticePosition:
    """The first file of a partition without an acknowledged notice.

    Attributes:
        segment_id: Its segment; all notices of earlier segments are acknowledged.
        next: Its start; None: the first file of the segment.
    """

    segment_id: str
    next: int | None = None


@dataclass(frozen=True)
class NoticePositions:
    """The places of all partitions.

    Attributes:
        segment_id: The segment in which other partitions begin, those that have no place yet.
        known: Partition id -> place.
    """

    segment_id: str
    known: Mapping[str, NoticePosition] = field(default_factory=dict)

    def of(self, partition: str) -> NoticePosition:
        """The place of a partition."""
        return self.known.get(partition) or NoticePosition(self.segment_id)

    def moved(self, partition: str, place: NoticePosition) -> "NoticePositions":
        """These places, with another one of a partition."""
        return replace(self, known={**self.known, partition: place})


def later(one: NoticePosition, other: NoticePosition, order: Sequence[str]) -> NoticePosition:
    """PURE: the later of two places.

    Args:
        one: A place.
        other: A place.
        order: The ids of the segments, the newest last.
    """
    return max(one, other, key=lambda place: (order.index(place.segment_id), -1 if place.next is None else place.next))


def joined(stored: NoticePositions, known: NoticePositions, order: Sequence[str]) -> NoticePositions:
    """PURE: the places in storage, and later ones that this host knows to be acknowledged."""
    found = {name: later(stored.of(name), place, order) for name, place in known.known.items()}
    return NoticePositions(stored.segment_id, {**stored.known, **found})


def parsed(data: bytes) -> NoticesRecord:
    """PURE: the record in a blob; raises `ValueError`."""
    return NoticesRecord.model_validate_json(data)


def places_of(record: NoticesRecord) -> NoticePositions:
    """PURE: the places that a record names."""
    known = {
        name: NoticePosition(record.segments.get(name, record.segment_id), record.next.get(name))
        for name in record.next.keys() | record.segments.keys()
    }
    return NoticePositions(record.segment_id, known)


def record_of(places: NoticePositions, chain: str, now: datetime) -> NoticesRecord:
    """PURE: the record that names these places."""
    known = sorted(places.known.items())
    return NoticesRecord(
        chain=chain,
        written_at=now,
        segment_id=places.segment_id,
        next={name: place.next for name, place in known if place.next is not None},
        segments={name: place.segment_id for name, place in known if place.segment_id != places.segment_id},
    )


def cursor_name(prefix: str) -> str:
    """Blob name of the cursor."""
    return f"{prefix}/_notices.json"


class Cursor:
    """The cursor of one consumer, and what this host knows beyond it."""

    def __init__(
        self, blobs: BlobStore, prefix: str, chain: str, *, now: Callable[[], datetime], clock: Callable[[], float]
    ) -> None:
        """Create a cursor; sends no request.

        Args:
            blobs: The container of the files.
            prefix: Their folder.
            chain: Identity of the chain.
            now: Wall clock, in UTC.
            clock: Seconds, for durations.
        """
        self._blobs = blobs
        self._name = cursor_name(prefix)
        self._chain = chain
        self._now = now
        self._clock = clock
        self._places: NoticePositions | None = None
        self._order: Sequence[str] = ()
        self._etag: str | None = None
        self._current = False  # whether storage has the version that this host has read or written
        self._changed = False
        self._saved_at = clock()

    @property
    def places(self) -> NoticePositions | None:
        """The places of all partitions; None before the cursor was read."""
        return self._places

    def doubt(self) -> None:
        """Read the cursor again before it is used: another host may have written it."""
        self._current = False

    async def read(self, order: Sequence[str], begin: NoticePositions | None) -> bool:
        """Read the cursor, if this host does not have it; returns whether there is one.

        Args:
            order: The ids of the segments, the newest last.
            begin: Where a new cursor begins; None: do not begin one.

        Raises:
            Damaged: The cursor cannot be parsed, or names a segment that is not in `order`.
            StorageError: A request failed: call it again.
        """
        self._order = order
        if self._current:
            return True
        blob = await self._blobs.read(self._name, RECORD_MAX_BYTES)
        record = self._parsed(blob.data) if blob else None
        if record is not None and record.chain == self._chain:
            stored = places_of(record)
            segments = {stored.segment_id, *(place.segment_id for place in stored.known.values())}
            if not segments <= set(order):
                raise Damaged(
                    f"the cursor of notices, blob {self._name}, names a segment that this host does not know. If no "
                    f"host registers with it soon, restore its record in _segments/; as the last resort, {_REMEDY}"
                )
            self._places = stored if self._places is None else joined(stored, self._places, order)
            self._changed = self._places != stored
        elif begin is None:
            return False
        else:
            self._places, self._changed, self._saved_at = begin, True, self._clock() - SAVE_SECONDS
            log.info("notices begin with the next files", partitions=len(begin.known))
        self._etag = blob.info.etag if blob else None
        self._current = True
        return True

    def has_passed(self, partition: str, place: NoticePosition) -> bool:
        """Whether all notices of a partition before `place` are acknowledged, as far as this host knows."""
        if self._places is None or partition not in self._places.known:
            return False
        found = self._places.of(partition)
        return later(place, found, self._order) == found

    def move(self, partition: str, place: NoticePosition) -> None:
        """Record that all notices of a partition before `place` are acknowledged; an earlier place changes nothing."""
        if self._places is None:
            return
        found = later(self._places.of(partition), place, self._order)
        if found != self._places.known.get(partition):
            self._places, self._changed = self._places.moved(partition, found), True

    async def save(self, *, last: bool = False) -> bool:
        """Write the cursor if it changed, at most once in `SAVE_SECONDS`; returns whether storage has all places.

        If another host wrote it, this host reads it again.

        Args:
            last: Write it at once.

        Raises:
            StorageError: It was not written, or the outcome is unknown: this host reads it again.
        """
        if self._places is None or not self._current:
            return False
        if not self._changed:
            return True
        if not last and self._clock() - self._saved_at < SAVE_SECONDS:
            return False
        record = record_of(self._places, self._chain, self._now())
        data = record.to_json(indent=1).encode()
        self._changed, self._saved_at = False, self._clock()
        try:
            self._etag = await self._blobs.put(self._name, data, if_match=self._etag, if_absent=self._etag is None)
        except StorageError as error:
            self._current, self._changed = False, True
            if not isinstance(error, Conflict):
                raise
            return False
        return True

    def _parsed(self, data: bytes) -> NoticesRecord:
        try:
            return parsed(data)
        except ValidationError:
            raise Damaged(f"cannot parse the cursor of notices, blob {self._name}: {_REMEDY}") from None


_REMEDY = "delete it, and notices begin with the files that are written after that"
