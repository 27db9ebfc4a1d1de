"""The command `files`: lists the files of the slot chains, newest last. Read-only, with one listing."""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.durations import moment
from eventconsumer_host.errors import CommandError
from eventconsumer_host.sink.gaps import GapReason, parse
from eventconsumer_host.sink.slots import Slot
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import Damaged
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.model import FileRow, FilesReport, FileTotals, ReportedHub
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.inspect.files import dead_letters, file_in, slots
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, NOTHING, say, show, table_of, text


class Newest:
    """Keeps the newest files and counts all, so that a chain of a million files needs no more memory than a short one.

    Args:
        limit: The number of files to keep; 0: all.
    """

    def __init__(self, limit: int) -> None:
        self.totals = FileTotals()
        self._limit = limit
        self._heap: list[tuple[datetime, tuple[int, str], int, FileRow]] = []

    def add(self, row: FileRow) -> None:
        """Add a file; partition and first sequence number are unique."""
        totals = self.totals
        self.totals = FileTotals(
            files=totals.files + 1,
            events=totals.events + row.events,
            dropped=totals.dropped + row.dropped,
            lost=totals.lost + row.lost,
            bytes=totals.bytes + row.bytes,
            tombstones=totals.tombstones + row.tombstone,
            dead_letters=totals.dead_letters + row.dead_letters,
        )
        heapq.heappush(self._heap, (row.modified, natural(row.partition), row.last_sequence_number, row))
        if self._limit and len(self._heap) > self._limit:
            heapq.heappop(self._heap)

    def rows(self) -> list[FileRow]:
        """The newest files, newest last."""
        return [row for *_, row in sorted(self._heap, key=lambda item: item[:3])]


async def read(
    consumer: OpenConsumer,
    partitions: Collection[str] = (),
    since: datetime | None = None,
    *,
    limit: int = 0,
    gaps: bool = False,
) -> FilesReport:
    """Read names and metadata of the files of the newest segment.

    Args:
        consumer: The consumer.
        partitions: Only these; empty: all.
        since: Only files written at this time or later.
        limit: The number of files in the report; 0: all.
        gaps: Only files that record lost events.

    Raises:
        StorageError: A request failed.
    """
    era = "" if consumer.segment is None else consumer.segment.segment_id
    prefix = consumer.config.sink.prefix
    newest = Newest(limit)
    if era:
        letters = await dead_letters(consumer.walk, prefix, era)
        async for partition, start, info in slots(consumer.walk, prefix, era):
            if (partitions and partition not in partitions) or (since is not None and info.last_modified < since):
                continue
            try:
                row = _row(partition, info, file_in(info, start), letters.get(partition, []))
            except Damaged as error:
                say(f"skipped a file: {error}; run the audit")
                continue
            if row.lost or not gaps:
                newest.add(row)
    rows = newest.rows()
    return FilesReport(
        container=consumer.config.sink.container,
        prefix=prefix,
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
        segment_id=era,
        files=rows,
        totals=newest.totals,
        shown=len(rows),
    )


def _row(partition: str, info: BlobInfo, file: Slot, letters: list[int]) -> FileRow:
    return FileRow(
        partition=partition,
        name=file.path,
        first_sequence_number=file.first,
        last_sequence_number=file.last,
        events=file.count,
        dropped=file.dropped,
        bytes=file.size,
        modified=info.last_modified,
        epoch=file.epoch,
        lost=sum(len(gap) for gap in parse(file.gap) if gap.reason is GapReason.RETENTION),
        gap=file.gap,
        tombstone=file.tombstone,
        dead_letters=bisect_right(letters, file.last) - bisect_left(letters, file.start),
    )


async def files(
    config: Path, output: PrintFormat, *, partition: Collection[str], since: str | None, limit: int, gaps: bool
) -> int:
    """Print the files; the exit code."""
    try:
        limit_time = None if since is None else moment(since, datetime.now(UTC))
    except ValueError as error:
        raise CommandError(f"--since: {error}") from None
    async with opened(config) as consumer:
        report = await read(consumer, partition, limit_time, limit=limit, gaps=gaps)
    show(report, output, lambda shown, console: _table(shown, console, gaps=gaps))
    if report.totals.files:
        return DONE
    say(
        f"no matching files in {report.container}/{report.prefix}"
        + ("" if report.segment_id else ": no host has registered yet")
    )
    return NOTHING


def _table(report: FilesReport, console: Console, *, gaps: bool) -> None:
    console.print(_gaps(report) if gaps else _files(report))
    totals = report.totals
    left_out = f" ({report.shown:,} shown)" if report.shown < totals.files else ""
    lost = f", {text(totals.lost)} lost events before them" if gaps else ""
    console.print(
        f"{text(totals.files)} files{left_out} in {report.container}/{report.prefix}: {text(totals.events)} events, "
        f"{text(totals.bytes)} bytes{lost}",
        soft_wrap=True,
    )


def _gaps(report: FilesReport) -> Table:
    rows = [(row.partition, row.lost, row.gap, row.modified, _name(report, row)) for row in report.files]
    return table_of(("PARTITION", "LOST", "NUMBERS", "MODIFIED", "NEXT FILE"), rows, right=("LOST",))


def _name(report: FilesReport, row: FileRow) -> str:
    return row.name.removeprefix(f"{report.prefix}/")


def _files(report: FilesReport) -> Table:
    """The files; dropped events only where there are any, because names need the width of a terminal."""
    with_dropped = any(row.dropped for row in report.files)
    more = ("DROPPED",) if with_dropped else ()
    headers = ("PARTITION", "FIRST", "LAST", "EVENTS", *more, "BYTES", "MODIFIED", "DEAD", "FILE")
    rows = [
        (
            row.partition,
            row.first_sequence_number,
            row.last_sequence_number,
            row.events,
            *((row.dropped or None,) if with_dropped else ()),
            "tombstone" if row.tombstone else row.bytes,
            row.modified,
            row.dead_letters or None,
            _name(report, row),
        )
        for row in report.files
    ]
    return table_of(headers, rows, right=("FIRST", "LAST", "EVENTS", *more, "BYTES", "DEAD"))
