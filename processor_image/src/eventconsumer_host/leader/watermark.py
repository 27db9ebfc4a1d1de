"""The watermark: up to which enqueued time all events of every partition are in files, and in committed batches.

An event that the handler dropped counts as if it were in the file whose metadata counts it.

Two observations of a partition say that all events up to a time are in its files:

    a file             the events after the file are not older than the newest event in the files, less `MARGIN`
    an answer of hub   its last event is the last one in the files. Events that were not enqueued when the hub was asked
                       are not older than that time, less `MARGIN`

`MARGIN` is what the clocks may differ. Event Hubs orders events by sequence number. Their enqueued times come from the
clock of the broker, and can fall when another broker takes the partition over: "time stamps [...] may be subject to
(however minimal) clock skew in situations where the broker ownership transitions between nodes"
(learn.microsoft.com/azure/service-bus-messaging/message-sequencing, of the service that has the broker in common with
Event Hubs; the documentation of Event Hubs does not say more).

The functions are pure; `WatermarkFile` writes the record.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from pydantic import ValidationError

from eventconsumer_api.wire.batch import Totals
from eventconsumer_api.wire.host_report import WatermarkReport
from eventconsumer_api.wire.identity import RECORD_MAX_BYTES
from eventconsumer_api.wire.watermark import WatermarkRecord, watermark_name
from eventconsumer_host.batch.report import count
from eventconsumer_host.leader.ledger import Ledger
from eventconsumer_host.leader.task import Task, View
from eventconsumer_host.partition import marks
from eventconsumer_host.sink.slots import Slot
from eventconsumer_host.source.hub import CLOCKS_DIFFER, PartitionInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Damaged

MARGIN = CLOCKS_DIFFER
STEP = timedelta(seconds=60)  # of the times that are written: a write of the record and of the status for each
_MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Complete:
    """What is complete.

    Attributes:
        files: All events that were enqueued before are in files.
        segment_id: The newest segment.
        next: Partition id -> end of its files.
        commits: All events that were enqueued before are in committed batches; None: unknown.
        batch: The last committed batch; None: unknown.
        totals: Of the files before `next` and of earlier segments; None: with Spark.
        gaps: Partition id -> the last gap in these files.
    """

    files: datetime
    segment_id: str
    next: Mapping[str, int]
    commits: datetime | None = None
    batch: int | None = None
    totals: Totals | None = None
    gaps: Mapping[str, str] | None = None


def floor(time: datetime, step: timedelta) -> datetime:
    """The last multiple of `step`, counted from midnight UTC, that is not after `time`."""
    return time - (time - _MIDNIGHT) % step


def is_drained(ledger: Ledger | None, info: PartitionInfo) -> bool:
    """Whether files hold all events of a partition that the hub still had when it answered.

    The same last number is not enough: after a failover it may name another event.

    Args:
        ledger: The files; None: no host has opened the partition yet.
        info: The answer of the hub.
    """
    if ledger is None:
        return info.last < 0
    if max(ledger.next, info.earliest) != info.last + 1 or not ledger.end_sought:
        return False
    if ledger.end is None or info.is_empty:
        return True
    return marks.same(ledger.end, marks.end_of(info)) is not False


def of_partition(ledger: Ledger | None, info: PartitionInfo | None, asked: datetime | None) -> datetime | None:
    """All events of a partition that were enqueued before this time are in files; None: unknown.

    Args:
        ledger: Its files; None: no host has opened the partition yet.
        info: An answer of the hub, at any time; None: none.
        asked: When the hub was asked, by the clock of this host.
    """
    times = [] if ledger is None or ledger.newest is None else [ledger.newest]
    if info is not None and asked is not None and is_drained(ledger, info):
        # A clock of this host that is ahead does no harm where the hub tells its own time.
        times.append(asked if info.read_at is None else min(asked, info.read_at))
    return max(times) - MARGIN if times else None


def without(files: datetime | None, left: Iterable[Slot]) -> datetime | None:
    """The watermark of all files but some; None: unknown.

    Args:
        files: The watermark of all files.
        left: The files that do not count.
    """
    for slot in left:
        if not slot.count:  # the handler dropped all its events: nothing is left to process
            continue
        if files is None or slot.enqueued is None:  # a file of an old version does not tell its times
            return None
        files = min(files, slot.enqueued.earliest)
    return files


def of_windows(pending: Mapping[str, Sequence[Slot]], end: datetime) -> dict[str, list[Slot]]:
    """The files that hold the events of the windows up to `end`, by partition, in chain order.

    A file of an earlier window can follow one that only has later events, if enqueued times fell.

    Args:
        pending: Files in no batch, in chain order, by partition.
        end: End of the last complete window.
    """
    found: dict[str, list[Slot]] = {}
    for partition, slots in pending.items():
        counts = [
            number
            for number, slot in enumerate(slots, start=1)
            if slot.count and (slot.enqueued is None or slot.enqueued.earliest < end)
        ]
        if counts:
            found[partition] = list(islice(slots, counts[-1]))
    return found


def not_taken(pending: Mapping[str, Sequence[Slot]], taken: Mapping[str, Sequence[Slot]]) -> Iterator[Slot]:
    """The pending files after those that a batch takes, which are the first ones of each partition."""
    for partition, slots in pending.items():
        yield from islice(slots, len(taken.get(partition, ())), None)


def merged(known: WatermarkRecord | None, complete: Complete, chain: str, now: datetime) -> WatermarkRecord:
    """The record with everything that is true by either: its times never fall.

    Args:
        known: The record in storage; None: none, or of another chain.
        complete: What this host knows.
        chain: Identity of the chain.
        now: Wall clock.
    """
    files = floor(complete.files, STEP)
    if known is not None and known.files >= files:
        record = known
    else:
        record = WatermarkRecord(
            chain=chain,
            written_at=now,
            files=files,
            segment_id=complete.segment_id,
            next=dict(complete.next),
            totals=complete.totals,
            gaps=dict(complete.gaps) if complete.gaps else None,
        )
    commits, batch = (known.commits, known.batch) if known else (None, None)
    if complete.commits is not None and (commits is None or floor(complete.commits, STEP) > commits):
        commits, batch = floor(complete.commits, STEP), complete.batch
    if (record.commits, record.batch) != (commits, batch):
        record = record.model_copy(update={"commits": commits, "batch": batch, "written_at": now})
    return record


class WatermarkFile:
    """The record in storage, which the leading host and the probe rewrite."""

    def __init__(self, blobs: BlobStore, prefix: str, chain: str, now: Callable[[], datetime]) -> None:
        """Create.

        Args:
            blobs: The container of the files.
            prefix: Their folder.
            chain: Identity of the chain.
            now: Wall clock, in UTC.
        """
        self.record: WatermarkRecord | None = None  # as in storage, as far as this host knows
        self._blobs = blobs
        self._name = watermark_name(prefix)
        self._chain = chain
        self._now = now
        self._etag: str | None = None
        self._read = False

    @property
    def report(self) -> WatermarkReport | None:
        """The record in the report of a host; None: there is no record."""
        if (record := self.record) is None:
            return None
        return WatermarkReport(files=record.files, commits=record.commits, batch=count(record.batch or 0))

    async def saved(self) -> WatermarkRecord | None:
        """The record in storage; None: there is none of this chain, or it cannot be parsed.

        Raises:
            StorageError: The request failed.
        """
        if not self._read:
            with contextlib.suppress(Damaged):  # `publish` reports it
                await self._learn()
        return self.record

    async def publish(self, complete: Complete | None) -> None:
        """Read the record, and write what is complete if it is known and more. Two hosts at once do no harm.

        Raises:
            StorageError: A request failed, or the record cannot be parsed; the next call tries again.
        """
        if not self._read:
            await self._learn()
        if complete is None:
            return
        record = merged(self.record, complete, self._chain, self._now())
        if record == self.record:
            return
        data = record.to_json(indent=1).encode()
        self._read = False  # after a failure the outcome is unknown
        try:
            self._etag = await self._blobs.put(self._name, data, if_match=self._etag, if_absent=self._etag is None)
        except Conflict:
            return  # another host wrote it: the next call reads it
        self.record, self._read = record, True

    async def _learn(self) -> None:
        blob = await self._blobs.read(self._name, RECORD_MAX_BYTES)
        self.record, self._etag = None, blob.info.etag if blob else None
        if blob is not None:
            try:
                record = WatermarkRecord.model_validate_json(blob.data)
            except ValidationError:
                raise Damaged(
                    f"cannot parse the watermark, blob {self._name}: delete it, and hosts write it again"
                ) from None
            self.record = record if record.chain == self._chain else None
        self._read = True


class WatermarkTask(Task):
    """Writes the watermark."""

    name = "write the watermark"

    def __init__(self, file: WatermarkFile, completeness: Callable[[], Complete | None]) -> None:
        """Create; sends no request.

        Args:
            file: The record in storage.
            completeness: What is complete now; None: unknown.
        """
        self._file = file
        self._completeness = completeness

    async def step(self, view: View) -> None:
        """See `LeaderTask`."""
        await self._file.publish(self._completeness())

    def report(self) -> Mapping[str, object]:
        """See `LeaderTask`."""
        return {"watermark": self._file.report}
