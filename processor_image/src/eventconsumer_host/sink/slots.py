"""The slot chain: the files of a partition, with each event in exactly one of them, without a database.

The name of a slot is the sequence number that was *expected next* (the last one of the previous file + 1), never the
first one that was received. So two hosts that write the same events use the same name, and a put that succeeds only if
no blob exists lets one of them win. A genesis record, written in the same way, defines the start of the chain. If the
hub later has other events at the same sequence numbers, a seal ends the chain: a file without rows in the next slot, so
that no host can commit there.

Names are a pure function of the chain: they contain no clock, host or epoch. Files are never deleted or changed, with
one exception: retention replaces a file with a tombstone, which is a slot like any other.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import Field

from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.identity import EventMark, PartitionBreak
from eventconsumer_host.sink.content import Content, put_if_absent, upload
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.confined import reader
from eventconsumer_storage.confined.reader import Ranges
from eventconsumer_storage.errors import Conflict, Damaged

_GENESIS_LIMIT = 4096
_DIGITS = 20  # of a sequence number in a name
_NEAR_DIGITS = 17  # the first listing covers the nearest 1,000 sequence numbers
_PAGE = 5000  # names in one listing: one response of storage
_SEAL = "sealed"  # metadata of the blob that ends a chain: the time of the seal


class Genesis(WireDocument):
    """Where a chain starts."""

    start: int = Field(strict=True, ge=0, description="The first sequence number.")
    before: EventMark | None = Field(
        default=None,
        description="The event before it, if the hub had one and it is known: hosts recognise the hub by it until "
        "there is a file.",
    )


def parse_genesis(data: bytes) -> Genesis:
    """PURE: the start of a chain in its record.

    Raises:
        ValueError: It cannot be read.
    """
    return Genesis.model_validate_json(data)


@dataclass(frozen=True, slots=True)
class EnqueuedRange:
    """The earliest and the latest enqueued time of the events of a file, which need not be those of its ends."""

    earliest: datetime
    latest: datetime


@dataclass(frozen=True, slots=True)
class Draft:
    """A file to be committed.

    The slot covers `start` to `last`: `count` events in the file, `dropped` events that the handler dropped, and gaps.
    """

    start: int  # expected sequence number, the slot's name
    first: int  # the first and the last event, in the file or dropped
    last: int
    count: int
    epoch: int
    writer: str
    nonce: str
    last_offset: str
    last_enqueued_time: datetime
    gap: str = ""  # the gaps before and between the events
    chain: str = ""  # identity of the chain
    enqueued: EnqueuedRange | None = None  # None: no events
    dropped: int = 0
    columns: str = ""  # the columns of bodies in the file: `columns_record.ColumnsOfFile`; empty: none
    statistics: str = ""  # of these columns: `body.statistics`; empty: none

    def metadata(self) -> dict[str, str]:
        """The blob's metadata, and the file's."""
        return {
            "first": str(self.first),
            "last": str(self.last),
            "count": str(self.count),
            "epoch": str(self.epoch),
            "writer": self.writer,
            "nonce": self.nonce,
            "last_offset": self.last_offset,
            "last_enqueued_time": self.last_enqueued_time.isoformat(),
        } | {key: value for key, value in self._optional() if value}

    def _optional(self) -> Iterator[tuple[str, str]]:
        yield "chain", self.chain
        yield "gap", self.gap
        yield "dropped", str(self.dropped or "")
        yield "columns", self.columns
        yield "statistics", self.statistics
        if self.enqueued is not None:
            yield "min_enqueued_time", self.enqueued.earliest.isoformat()
            yield "max_enqueued_time", self.enqueued.latest.isoformat()


@dataclass(frozen=True, slots=True)
class Slot:
    """A committed file."""

    path: str  # of the blob with the events
    etag: str  # of that blob
    size: int  # bytes of that blob; 0 for a tombstone
    committed_at: datetime
    start: int
    first: int
    last: int
    count: int
    epoch: int
    nonce: str
    last_offset: str
    last_enqueued_time: datetime
    gap: str = ""
    tombstone: bool = False  # retention removed its content
    enqueued: EnqueuedRange | None = None  # None: no events, or written by a version that did not record it
    dropped: int = 0  # events that the handler dropped: they are in no file
    removed: int = 0  # bytes that retention removed; 0 also for tombstones of versions that did not record it
    columns: str = ""  # see `Draft`
    statistics: str = ""

    @property
    def mark(self) -> EventMark:
        """Its last event."""
        return EventMark(sequence_number=self.last, offset=self.last_offset, enqueued_time=self.last_enqueued_time)


def segment_id(hub: HubInfo, segment: int = 1) -> str:
    """16 hexadecimal digits that name the folder of a segment's files.

    Args:
        hub: The hub, with its creation time when the segment began.
        segment: Number of the segment.
    """
    created = hub.created_at.astimezone(UTC).isoformat(timespec="milliseconds")
    number = "" if segment == 1 else f"\n{segment}"
    return hashlib.sha256(f"{hub.namespace}\n{hub.name.lower()}\n{created}{number}".encode()).hexdigest()[:16]


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


class Chain:
    """The files of one partition, each in its slot: the layout SequenceNumber."""

    def __init__(
        self,
        blobs: BlobStore,
        prefix: str,
        segment_id: str,
        partition: str,
        *,
        suffix: str = ".parquet",
        opening: PartitionBreak | None = None,
        successor: str = "",
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Create a chain; sends no request.

        Args:
            blobs: The container.
            prefix: Folder of the consumer's files.
            segment_id: Id of the segment.
            partition: Partition id.
            suffix: Suffix of the slot names.
            opening: Where the partition starts in this segment; None in the first segment.
            successor: Blob name of the record of the next segment; empty: no next segment is possible.
            now: Wall clock, for times that users see.
        """
        self.partition = partition
        self.opening = opening
        self._successor = successor
        self._blobs = blobs
        self._folder = f"{prefix}/segment={segment_id}/partition={partition}/from="
        self._genesis = f"{prefix}/_genesis/{segment_id}/{partition}.json"
        self._suffix = suffix
        self._now = now

    def path(self, start: int) -> str:
        """Name of the slot that starts at `start`."""
        return f"{self._folder}{start:0{_DIGITS}d}{self._suffix}"

    async def genesis(self) -> Genesis | None:
        """The start of the chain; None if it is not decided yet.

        Raises:
            Damaged: The genesis record cannot be read.
            StorageError: The request failed.
        """
        blob = await self._blobs.read(self._genesis, _GENESIS_LIMIT)
        if blob is None:
            return None
        try:
            return parse_genesis(blob.data)
        except ValueError:
            raise Damaged(f"genesis record {self._genesis} cannot be read: restore it from a backup") from None

    async def start(self) -> int | None:
        """The first sequence number of the chain; None if it is not decided yet. Raises as `genesis`."""
        genesis = await self.genesis()
        return genesis.start if genesis else None

    async def begin(self, start: int, before: EventMark | None = None) -> Genesis:
        """Decide the start of the chain; the first host wins, and all hosts get its decision.

        Args:
            start: The first sequence number.
            before: The event before it, if it is known.
        """
        genesis = Genesis(start=start, before=before)
        try:
            await self._blobs.put(self._genesis, genesis.to_json().encode(), if_absent=True)
        except Conflict:
            return await self.genesis() or genesis
        return genesis

    async def at(self, start: int) -> Slot | None:
        """The slot that starts at `start`, if it is committed."""
        info = await self._blobs.head(self.path(start))
        return None if info is None or info.maybe_staged or _is_seal(info) else self._slot(info, start)

    async def seal(self, start: int, content: bytes) -> bool:
        """End the chain at `start` permanently; False if a file is in this slot.

        Args:
            start: The start of the next slot.
            content: A file of this format without rows: some programs read all files of the folder.

        Raises:
            StorageError: The chain was not ended, or the outcome is unknown: call it again.
        """
        try:
            facts = {_SEAL: self._now().isoformat(timespec="seconds")}
            await put_if_absent(self._blobs, self.path(start), content, facts)
        except Conflict:
            return await self.is_sealed(start)
        return True

    async def is_sealed(self, start: int) -> bool:
        """Whether the chain was ended at `start`.

        Raises:
            StorageError: The request failed.
        """
        info = await self._blobs.head(self.path(start))
        return info is not None and _is_seal(info)

    async def is_superseded(self) -> bool:
        """Whether a next segment exists.

        Raises:
            StorageError: The request failed.
        """
        return bool(self._successor) and await self._blobs.head(self._successor) is not None

    async def put(self, draft: Draft, content: Content | bytes) -> None:
        """Commit a file.

        Raises:
            Conflict: The slot is taken, possibly by this file.
            Unavailable: The outcome is unknown.
            StorageError: The file was not committed, or the outcome is unknown: read the slot.
        """
        content = content if isinstance(content, Content) else Content.of(content)
        await upload(self._blobs, self.path(draft.start), content, draft.metadata())

    async def forsake(self, draft: Draft) -> None:
        """Remove the blobs of a draft whose slot holds another writer's file; never fails."""

    async def put_empty(self) -> None:
        """Write the empty file of a window without events, if the layout has empty files.

        Raises:
            StorageError: It was not written, or the outcome is unknown; no other file depends on it.
        """

    async def last_before(self, number: int) -> Slot | None:
        """The slot with the greatest start up to `number`; the listings are few and short for any length of the chain.

        Shorter prefixes of the number list wider ranges around it. A range with too many slots is listed in tenths,
        from the number downwards.
        """
        if number < 0:
            return None
        digits = f"{number:0{_DIGITS}d}"
        for length in range(_NEAR_DIGITS, -1, -1):
            found, complete = await self._greatest(digits[:length], number)
            tenth = int(digits[length])
            while found is None and not complete and tenth > 0:
                tenth -= 1
                found = await self._descend(digits[:length] + str(tenth), number)
            if found is not None:
                return found
        return None

    async def walk(self) -> AsyncIterator[Slot]:
        """All slots in the order of their starts, from one listing: cheaper than following a long chain.

        The slots of a page are in memory, and not those of the whole listing.
        """
        found, token = await self._blobs.list_page(self._folder)
        while True:
            for info, start in self._named(found):
                yield self._slot(info, start)
            if not token:
                return
            found, token = await self._blobs.list_page(self._folder, token)

    async def listed(self) -> list[Slot]:
        """All slots of a chain that is not long; see `walk`."""
        return [slot async for slot in self.walk()]

    async def content(self, slot: Slot) -> Ranges | None:
        """The content of a slot's file, which others may have written; None if it does not exist."""
        info = await self._blobs.head(slot.path)
        return None if info is None else reader.blob(self._blobs, info)

    async def _descend(self, digits: str, number: int) -> Slot | None:
        """The greatest slot whose name starts with these digits, all of which are below `number`."""
        found, complete = await self._greatest(digits, number)
        if complete:
            return found
        for tenth in range(9, -1, -1):
            if deeper := await self._descend(digits + str(tenth), number):
                return deeper
        return None

    async def _greatest(self, digits: str, number: int) -> tuple[Slot | None, bool]:
        """The greatest slot up to `number` whose name starts with these digits.

        Returns:
            The slot, and whether the listing had all slots up to `number`; if not, the slot is None.
        """
        found = await self._blobs.list(f"{self._folder}{digits}", metadata=True, limit=_PAGE)
        slots = self._named(found)
        complete = len(found) < _PAGE or (bool(slots) and slots[-1][1] > number)
        below = [(info, start) for info, start in slots if start <= number]
        return (self._slot(*below[-1]) if below and complete else None), complete

    def _named(self, found: Sequence[BlobInfo]) -> list[tuple[BlobInfo, int]]:
        """The slots among blobs, with their starts, without seals and blobs with other names."""
        slots = (info for info in found if not info.maybe_staged and not _is_seal(info))
        named = ((info, info.name.removeprefix(self._folder).removesuffix(self._suffix)) for info in slots)
        return [(info, int(name)) for info, name in named if len(name) == _DIGITS and name.isdecimal()]

    def _slot(self, info: BlobInfo, start: int) -> Slot:
        return slot_of(info, start)


def _is_seal(info: BlobInfo) -> bool:
    return any(key.lower() == _SEAL for key in info.metadata)


def slot_of(info: BlobInfo, start: int) -> Slot:
    """The slot of a blob.

    Raises:
        Damaged: The blob lacks the metadata of a slot.
    """
    facts: Mapping[str, str] = {key.lower(): value for key, value in info.metadata.items()}
    try:
        return Slot(
            path=info.name,
            etag=info.etag,
            size=info.size,
            committed_at=info.last_modified,
            start=start,
            first=int(facts["first"]),
            last=int(facts["last"]),
            count=int(facts["count"]),
            epoch=int(facts["epoch"]),
            nonce=facts["nonce"],
            last_offset=facts["last_offset"],
            last_enqueued_time=datetime.fromisoformat(facts["last_enqueued_time"]),
            gap=facts.get("gap", ""),
            tombstone="tombstone" in facts,
            enqueued=_enqueued_range(facts),
            dropped=int(facts.get("dropped", 0)),
            removed=int(facts.get("size", 0)) if "tombstone" in facts else 0,
            columns=facts.get("columns", ""),
            statistics=facts.get("statistics", ""),
        )
    except (KeyError, ValueError) as error:
        raise Damaged(
            f"blob {info.name} is not a file of the chain ({error!r} in its metadata): another program wrote or "
            "changed it; restore it"
        ) from None


def _enqueued_range(facts: Mapping[str, str]) -> EnqueuedRange | None:
    times = [facts.get(key) for key in ("min_enqueued_time", "max_enqueued_time")]
    earliest, latest = (datetime.fromisoformat(time) if time else None for time in times)
    return EnqueuedRange(earliest, latest) if earliest and latest else None
