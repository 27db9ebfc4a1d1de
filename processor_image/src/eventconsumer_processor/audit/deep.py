"""Reads whole files and compares their rows with the metadata of their slots (S1, S3).

A few files are read at a time, limited by bytes; parsing runs in threads. `problems` is pure. Only sequence numbers and
partitions of the rows are decoded: the hash proves that the other columns are unchanged.
"""

import asyncio
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from eventconsumer_processor.audit.codes import Code
from eventconsumer_processor.audit.container import FILE_MAX_BYTES, Container
from eventconsumer_processor.audit.names import Gap, SlotFacts
from eventconsumer_storage.errors import StorageError

AT_A_TIME = 4
BUDGET = 96 * 1024 * 1024  # bytes of files in memory; a larger file is read alone
COLUMNS = [
    "sequence_number",
    "offset",
    "enqueued_time",
    "partition_key",
    "partition_id",
    "body",
    "properties",
    "system_properties",
    "content_type",
    "message_id",
    "correlation_id",
]

_FACTS = ("first", "last", "count", "epoch")  # in the metadata of a slot and in its file

Problem = tuple[Code, str]
Report = Callable[[Code, str], None]


class DeepReader:
    """Checks files in the background; `check` waits while too many are in progress."""

    def __init__(self, container: Container, done: Callable[[int], None]) -> None:
        self._container = container
        self._done = done
        self._room = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._bytes = 0
        self._running = 0
        self._failure: StorageError | None = None

    async def check(self, slot: SlotFacts, partition: str, report: Report) -> None:
        """Read a slot's file as soon as there is room.

        Args:
            slot: Its metadata.
            partition: Its partition's id.
            report: Called for each problem.

        Raises:
            StorageError: An earlier file could not be read.
        """
        async with self._room:
            await self._room.wait_for(lambda: self._fits(slot.size))
            self._bytes += slot.size
            self._running += 1
        self._raise()
        task = asyncio.create_task(self._run(slot, partition, report))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait for all files.

        Raises:
            StorageError: One could not be read.
        """
        await asyncio.gather(*self._tasks)
        self._raise()

    def cancel(self) -> None:
        """Cancel all checks."""
        for task in self._tasks:
            task.cancel()

    def _fits(self, size: int) -> bool:
        return self._running < AT_A_TIME and (not self._bytes or self._bytes + size <= BUDGET)

    def _raise(self) -> None:
        if self._failure:
            raise self._failure

    async def _run(self, slot: SlotFacts, partition: str, report: Report) -> None:
        try:
            found = await self._problems(slot, partition)
            if found and not await is_tombstone(self._container, slot.name):  # it may have been pruned during the read
                for code, message in found:
                    report(code, message)
        except StorageError as error:
            self._failure = error
        finally:
            self._done(slot.size)
            async with self._room:
                self._bytes -= slot.size
                self._running -= 1
                self._room.notify_all()

    async def _problems(self, slot: SlotFacts, partition: str) -> list[Problem]:
        found: list[Problem] = []
        if slot.data and (record := await self._container.read(slot.name)) is not None:
            found += record_problems(slot, record)
        data = await self._container.read(slot.data.path if slot.data else slot.name, FILE_MAX_BYTES)
        if data is not None:
            return found + await asyncio.to_thread(problems, slot, partition, data)
        if slot.data is None:  # a data file that is missing is found by its record
            found.append((Code.SLOT_CHANGED, "the file was deleted while the audit ran"))
        return found


async def is_tombstone(container: Container, name: str) -> bool:
    """Whether a slot is a tombstone now.

    Raises:
        StorageError: The request failed.
    """
    info = await container.head(name)
    return info is not None and "tombstone" in {key.lower() for key in info.metadata}


def problems(slot: SlotFacts, partition: str, data: bytes) -> list[Problem]:
    """What is wrong with a file's content.

    Args:
        slot: What its metadata says.
        partition: Its partition's id.
        data: Its content.
    """
    found: list[Problem] = []
    if hashlib.sha256(data).hexdigest() != slot.sha256:
        found.append((Code.CONTENT_CHANGED, "the content's sha256 is not the one recorded with the file"))
    avro = (slot.data.path if slot.data else slot.name).endswith(".avro")
    try:
        rows = _avro(data) if avro else _parquet(data, slot, partition, found)
        found += _check_rows(slot, rows)
    except Exception as error:  # noqa: BLE001 - parsers raise errors of any type for damaged bytes
        found.append((Code.FILE_DAMAGED, f"the file cannot be read: {type(error).__name__}: {error}"[:300]))
    return found


def record_problems(slot: SlotFacts, data: bytes) -> list[Problem]:
    """Differences between a commit record's body and its metadata."""
    try:
        body: dict[str, Any] = {str(key): value for key, value in json.loads(data).items()}
    except (ValueError, AttributeError, RecursionError):
        return [(Code.CONTENT_CHANGED, "the commit record's body is not a JSON object")]
    wanted = {key: getattr(slot, key) for key in _FACTS} | {"sha256": slot.sha256, "dropped": slot.dropped or ""}
    if slot.data:
        wanted |= {"path": slot.data.path, "size": slot.data.size, "etag": slot.data.etag}
    different = [key for key, value in wanted.items() if str(body.get(key, "")).strip('"') != str(value)]
    if different:
        return [(Code.CONTENT_CHANGED, f"the commit record's body differs from its metadata in {', '.join(different)}")]
    return []


def _check_rows(slot: SlotFacts, rows: Iterator[list[int]]) -> Iterator[Problem]:
    previous, count, first = slot.start - 1, 0, None
    wrong: str | None = None
    holes: list[Gap] = []
    for chunk in rows:
        for number in chunk:
            if number <= previous and wrong is None:
                wrong = f"sequence number {number} follows {previous}" if count else f"it begins with {number}"
            elif number > previous + 1:
                holes.append(Gap(previous + 1, number - 1, ""))
            first = number if first is None else first
            previous = max(previous, number)
            count += 1
    if wrong:
        yield Code.ROWS_WRONG, f"sequence numbers do not rise from {slot.start}: {wrong}"
    fits = (first, previous) == (slot.first, slot.last)
    if slot.dropped:  # the first and the last event may have no row
        fits = first is None or slot.first <= first <= previous <= slot.last
        holes += [Gap(previous + 1, slot.last, "")] if previous < slot.last else []
    if count != slot.count or not fits:
        yield (
            Code.ROWS_WRONG,
            f"the file has {count} rows from {first} to {previous}, but its metadata names {slot.count} from "
            f"{slot.first} to {slot.last}",
        )
    elif not wrong and not _recorded(holes, slot):
        yield Code.GAP_UNRECORDED, "the missing sequence numbers differ from the recorded gaps"


def _recorded(holes: list[Gap], slot: SlotFacts) -> bool:
    """Whether the recorded gaps and the dropped events match the holes: in count, and gaps also in position."""
    gaps = slot.gaps
    if slot.dropped:
        gaps = *gaps, Gap(slot.start, slot.last, "", slot.dropped)  # they may be anywhere
    exact = [gap for gap in gaps if gap.count is None]
    counted = [gap for gap in gaps if gap.count is not None]
    if not counted:
        return _joined(holes) == _joined(exact)
    if sum(hole.events for hole in holes) != sum(gap.events for gap in gaps):
        return False
    ranges = _joined(sorted(gaps, key=lambda gap: gap.first))
    joined = _joined(holes)
    return all(any(low <= first and last <= high for low, high in ranges) for first, last in joined) and all(
        any(first <= gap.first and gap.last <= last for first, last in joined) for gap in exact
    )


def _joined(gaps: "list[Gap] | tuple[Gap, ...]") -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for gap in gaps:
        if joined and joined[-1][1] + 1 >= gap.first:
            joined[-1] = (joined[-1][0], max(joined[-1][1], gap.last))
        else:
            joined.append((gap.first, gap.last))
    return joined


def _parquet(data: bytes, slot: SlotFacts, partition: str, found: list[Problem]) -> Iterator[list[int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as file:
        names = file.schema_arrow.names
        if names != COLUMNS:
            found.append((Code.ROWS_WRONG, f"the columns are {', '.join(names)}"))
        recorded = {key.decode(): value.decode() for key, value in (file.metadata.metadata or {}).items()}
        for key in (*_FACTS, *(["dropped"] if slot.dropped else [])):
            said = recorded.get(f"eventconsumer.{key}")
            if said != str(getattr(slot, key)):
                found.append((Code.FACTS_WRONG, f"the file has {key} {said}, but its blob has {getattr(slot, key)}"))
        for batch in file.iter_batches(columns=["sequence_number", "partition_id"], use_threads=False):
            if any(value != partition for value in batch.column("partition_id").unique().to_pylist()):
                found.append((Code.ROWS_WRONG, "the file has rows of another partition"))
            yield batch.column("sequence_number").to_pylist()


def _avro(data: bytes) -> Iterator[list[int]]:
    import fastavro

    for row in fastavro.reader(io.BytesIO(data)):
        yield [row["SequenceNumber"]]
