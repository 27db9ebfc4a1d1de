"""The command `files`: what the slot chains hold, newest last. Only reads, by one listing however long they are."""

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from eventconsumer_api.durations import moment
from eventconsumer_processor.audit import names
from eventconsumer_processor.audit.access import AccessError
from eventconsumer_processor.tools.cli import DONE, NOTHING, say
from eventconsumer_processor.tools.consumer import Consumer, opened
from eventconsumer_processor.tools.leases import natural
from eventconsumer_processor.tools.model import FileRow, FilesReport, FileTotals, HubName
from eventconsumer_processor.tools.options import Output
from eventconsumer_processor.tools.output import show, table_of, text
from eventconsumer_storage.blobs import BlobInfo


class Newest:
    """Keeps the newest files and counts all, so that a chain of a million files takes no more memory than a short one.

    Args:
        limit: How many to keep; 0 keeps all.
    """

    def __init__(self, limit: int) -> None:
        self.totals = FileTotals()
        self._limit = limit
        self._heap: list[tuple[datetime, tuple[int, str], int, FileRow]] = []

    def add(self, row: FileRow) -> None:
        """Take a file; no two of them have the same partition and first sequence number."""
        totals = self.totals
        self.totals = FileTotals(
            files=totals.files + 1,
            events=totals.events + row.events,
            bytes=totals.bytes + row.bytes,
            tombstones=totals.tombstones + row.tombstone,
            dead_letters=totals.dead_letters + row.dead_letters,
        )
        heapq.heappush(self._heap, (row.modified, natural(row.partition), row.last_sequence_number, row))
        if self._limit and len(self._heap) > self._limit:
            heapq.heappop(self._heap)

    def rows(self) -> list[FileRow]:
        """The newest, newest last."""
        return [row for *_, row in sorted(self._heap, key=lambda item: item[:3])]


async def read(
    consumer: Consumer, partitions: Collection[str] = (), since: datetime | None = None, limit: int = 0
) -> FilesReport:
    """Read the names and facts of files of the newest segment.

    Args:
        consumer: Whose.
        partitions: Only these; empty: all.
        since: Only files written at this time or later.
        limit: How many to name; 0: all.

    Raises:
        StorageError: A request failed.
    """
    era = "" if consumer.segment is None else consumer.segment.incarnation
    root = f"{consumer.config.sink.prefix}/"
    newest = Newest(limit)
    if era:
        letters = await _dead_letters(consumer, f"{root}_deadletters/inc={era}/", root)
        async for info in consumer.files.walk(f"{root}inc={era}/"):
            name = names.parse(info.name.removeprefix(root))
            if not isinstance(name, names.SlotName) or (partitions and name.partition not in partitions):
                continue
            if since is None or info.last_modified >= since:
                row = _row(name, info, letters.get(name.partition, []))
                if row is not None:
                    newest.add(row)
    rows = newest.rows()
    return FilesReport(
        container=consumer.config.sink.container,
        prefix=consumer.config.sink.prefix,
        hub=HubName(namespace=consumer.namespace, name=consumer.hub_name),
        incarnation=era,
        files=rows,
        totals=newest.totals,
        shown=len(rows),
    )


async def _dead_letters(consumer: Consumer, folder: str, root: str) -> dict[str, list[int]]:
    """Sequence numbers of dead letters by partition, ascending as names are."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    async for info in consumer.files.walk(folder):
        name = names.parse(info.name.removeprefix(root))
        if isinstance(name, names.DeadLetterName):
            found[name.partition].append(int(info.name.rpartition("seq=")[2].removesuffix(".json")))
    return found


def _row(name: names.SlotName, info: BlobInfo, letters: list[int]) -> FileRow | None:
    try:
        slot = names.facts(info.name, name.start, info.size, info.etag, info.metadata)
    except names.BadFacts as error:
        say(f"left out {info.name}: {error}; run the audit")
        return None
    return FileRow(
        partition=name.partition,
        name=slot.data.path if slot.data else info.name,
        first_sequence_number=slot.first,
        last_sequence_number=slot.last,
        events=slot.count,
        bytes=0 if slot.tombstone else slot.size,
        modified=info.last_modified,
        epoch=slot.epoch,
        gap=next((value for key, value in info.metadata.items() if key.lower() == "gap"), ""),
        tombstone=slot.tombstone,
        dead_letters=bisect_right(letters, slot.last) - bisect_left(letters, slot.start),
    )


async def files(config: Path, output: Output, partitions: Collection[str], since: str | None, limit: int) -> int:
    """Print the files; the exit code."""
    try:
        limit_time = None if since is None else moment(since, datetime.now(UTC))
    except ValueError as error:
        raise AccessError(f"--since: {error}") from None
    async with opened(config) as consumer:
        report = await read(consumer, partitions, limit_time, limit)
    show(report, output, lambda console: _table(report, console))
    if report.totals.files:
        return DONE
    say(
        f"no such files in {report.container}/{report.prefix}"
        + ("" if report.incarnation else ": no host has registered yet")
    )
    return NOTHING


def _table(report: FilesReport, console: Console) -> None:
    headers = ("PARTITION", "FIRST", "LAST", "EVENTS", "BYTES", "MODIFIED", "DEAD", "FILE")
    rows = [
        (
            row.partition,
            row.first_sequence_number,
            row.last_sequence_number,
            row.events,
            "tombstone" if row.tombstone else row.bytes,
            row.modified,
            row.dead_letters or None,
            row.name.removeprefix(f"{report.prefix}/"),
        )
        for row in report.files
    ]
    console.print(table_of(headers, rows, right=("FIRST", "LAST", "EVENTS", "BYTES", "DEAD")))
    totals = report.totals
    left_out = f" ({report.shown:,} shown)" if report.shown < totals.files else ""
    console.print(
        f"{text(totals.files)} files{left_out} in {report.container}/{report.prefix}: {text(totals.events)} events, "
        f"{text(totals.bytes)} bytes",
        soft_wrap=True,
    )
