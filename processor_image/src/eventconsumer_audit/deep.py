"""Reads whole files and compares their rows with the metadata of their slots (S1, S3).

A few files are read at a time, in parts. Children parse them (`confined`), because any writer of the container may have
written them. Only sequence numbers and partitions of the rows are decoded: the hash proves that the other columns are
unchanged.
"""

import asyncio
import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

from eventconsumer_audit.bodycolumns import BadColumns, BodyColumns
from eventconsumer_audit.codes import Code
from eventconsumer_audit.container import FILE_MAX_BYTES, Container
from eventconsumer_audit.names import Gap, SlotFacts
from eventconsumer_storage.confined.reader import Blobs, Confined, Ranges, Reader, Unreadable, Vanished, Whole
from eventconsumer_storage.errors import Damaged, StorageError

AT_A_TIME = 4
CHILDREN = 2
SMALL_MAX_BYTES = 8 * 1024 * 1024  # of a file that is in memory as a whole
PART_BYTES = 4 * 1024 * 1024  # of a larger file that are hashed at once
RECORD_BYTES = 64 * 1024  # of a commit record
ROWS_MAX = 50_000_000  # of a file
HOLES_MAX = 1_000_000  # between the rows of a file
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

    def __init__(
        self, container: Container, root: str, done: Callable[[int], None], confined: Confined | None = None
    ) -> None:
        self._container = container
        self._bodies = BodyColumns(container, root)
        self._confined = confined or Reader(children=CHILDREN, keep=True)
        self._done = done
        self._room = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
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
            await self._room.wait_for(lambda: self._running < AT_A_TIME)
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

    async def close(self) -> None:
        """Cancel all checks, and end the children."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if isinstance(self._confined, Reader):
            await self._confined.close()

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
                self._running -= 1
                self._room.notify_all()

    async def _problems(self, slot: SlotFacts, partition: str) -> list[Problem]:
        found: list[Problem] = []
        if slot.data and (record := await self._record(slot, found)) is not None:
            found += record_problems(slot, record)
        name = slot.data.path if slot.data else slot.name
        try:
            opened = await self._open(name, slot.data.size if slot.data else slot.size)
            if opened is not None:
                sha256, source = opened
                if sha256 != slot.sha256:
                    text = "the content's sha256 is not the one recorded with the file"
                    found.append((Code.CONTENT_CHANGED, text))
                found += await self._rows(slot, partition, name, source)
                return found
        except Damaged as error:  # too large
            return [*found, (Code.FILE_DAMAGED, str(error))]
        except Vanished:
            pass
        except Unreadable as error:
            return [*found, (Code.FILE_DAMAGED, f"the file cannot be read: {error}"[:300])]
        if slot.data is None:  # a data file that is missing is found by its record
            found.append((Code.SLOT_CHANGED, "the file was deleted while the audit ran"))
        return found

    async def _record(self, slot: SlotFacts, found: list[Problem]) -> bytes | None:
        try:
            return await self._container.read(slot.name, RECORD_BYTES)
        except Damaged as error:
            found.append((Code.CONTENT_CHANGED, str(error)))
            return None

    async def _open(self, name: str, size: int) -> tuple[str, Blobs] | None:
        """The hash and the content of a file; None: it does not exist."""
        if size <= SMALL_MAX_BYTES:
            data = await self._container.read(name, SMALL_MAX_BYTES)
            return None if data is None else (hashlib.sha256(data).hexdigest(), Whole(data))
        info = await self._container.head(name)
        if info is None:
            return None
        if info.size > FILE_MAX_BYTES:
            raise Damaged(f"the file has {info.size} bytes, and hosts write {FILE_MAX_BYTES} at most")
        digest, read = hashlib.sha256(), self._container.ranges(info)
        for start in range(0, info.size, PART_BYTES):
            part = await read(start, min(PART_BYTES, info.size - start))
            await asyncio.to_thread(digest.update, part)
        return digest.hexdigest(), Ranges(info.size, read)

    async def _rows(self, slot: SlotFacts, partition: str, name: str, source: Blobs) -> list[Problem]:
        """What is wrong with the rows of a file."""
        rows, facts = Rows(slot), dict[str, Any]()
        avro = name.endswith(".avro")
        try:
            columns = [*COLUMNS, *await self._bodies.names(slot.columns)]
        except BadColumns as error:
            return [(Code.FACTS_WRONG, str(error))]
        keys = [f"eventconsumer.{key}" for key in (*_FACTS, "dropped")]
        running = self._confined.run(
            f"eventconsumer_audit.{'avrorows' if avro else 'parquetrows'}:numbers",
            [source],
            most=8 * min(slot.count + 10_000, ROWS_MAX),  # a few more rows are counted, for the message
            done=facts.update,
            arguments={} if avro else {"columns": columns, "keys": keys, "partition": partition},
        )
        async with aclosing(running) as pieces:
            async for piece in pieces:
                await asyncio.to_thread(rows.add, piece)
        return [*([] if avro else _parquet_problems(slot, facts)), *rows.problems()]


async def is_tombstone(container: Container, name: str) -> bool:
    """Whether a slot is a tombstone now.

    Raises:
        StorageError: The request failed.
    """
    info = await container.head(name)
    return info is not None and "tombstone" in {key.lower() for key in info.metadata}


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


class Rows:
    """Compares the sequence numbers of a file with its metadata."""

    def __init__(self, slot: SlotFacts) -> None:
        self._slot = slot
        self._previous, self._count = slot.start - 1, 0
        self._first: int | None = None
        self._wrong: str | None = None
        self._holes: list[Gap] = []

    def add(self, numbers: bytes) -> None:
        """Take the next numbers: signed numbers of 64 bits in network order."""
        for (number,) in struct.iter_unpack(">q", numbers):
            previous = self._previous
            if number <= previous and self._wrong is None:
                follows = f"sequence number {number} follows {previous}"
                self._wrong = follows if self._count else f"it begins with {number}"
            elif number > previous + 1 and len(self._holes) <= HOLES_MAX:
                self._holes.append(Gap(previous + 1, number - 1, ""))
            self._first = number if self._first is None else self._first
            self._previous = max(previous, number)
            self._count += 1

    def problems(self) -> Iterator[Problem]:
        """What is wrong, after the last number."""
        slot, first, previous, holes = self._slot, self._first, self._previous, self._holes
        if self._wrong:
            yield Code.ROWS_WRONG, f"sequence numbers do not rise from {slot.start}: {self._wrong}"
        fits = (first, previous) == (slot.first, slot.last)
        if slot.dropped:  # the first and the last event may have no row
            fits = first is None or slot.first <= first <= previous <= slot.last
            holes = holes + ([Gap(previous + 1, slot.last, "")] if previous < slot.last else [])
        if self._count != slot.count or not fits:
            yield (
                Code.ROWS_WRONG,
                f"the file has {self._count} rows from {first} to {previous}, but its metadata names {slot.count} "
                f"from {slot.first} to {slot.last}",
            )
        elif len(holes) > HOLES_MAX:
            yield Code.GAP_UNRECORDED, f"more than {HOLES_MAX} times sequence numbers are missing between rows"
        elif not self._wrong and not _recorded(holes, slot):
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


def _parquet_problems(slot: SlotFacts, facts: dict[str, Any]) -> Iterator[Problem]:
    """PURE: what is wrong with the columns and the metadata of a Parquet file."""
    if facts["columns"] is not None:
        yield Code.ROWS_WRONG, f"the columns are {facts['columns']}"
    for key in (*_FACTS, *(["dropped"] if slot.dropped else [])):
        said = facts["metadata"].get(f"eventconsumer.{key}")
        if said != str(getattr(slot, key)):
            yield Code.FACTS_WRONG, f"the file has {key} {said}, but its blob has {getattr(slot, key)}"
    if facts["foreign"]:
        yield Code.ROWS_WRONG, "the file has rows of another partition"
