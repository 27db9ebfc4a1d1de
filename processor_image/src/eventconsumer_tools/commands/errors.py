"""The command `errors`: lists events in the newest files whose bodies do not fit their columns. Read-only.

It reads the columns of numbers, times and errors alone: no body, and no value of one.
"""

import contextlib
import heapq
import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.durations import moment
from eventconsumer_api.spec.json_columns import ERROR_BYTES_MAX
from eventconsumer_api.wire.file_columns import ERROR
from eventconsumer_host.errors import CommandError
from eventconsumer_host.sink.slots import Slot
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.confined.reader import Confined, Reader, Unreadable, blob, whole
from eventconsumer_storage.errors import Damaged
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.model import BodyErrorGroup, BodyErrorRow, BodyErrorsReport, ReportedHub
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.inspect.files import file_in, slots
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, FAILED, NOTHING, say, show, table_of, text

_GROUPS = 100  # different errors of a file
_LINE_BYTES = 6 * ERROR_BYTES_MAX + 64  # in JSON, whose escapes have six characters


@dataclass(frozen=True)
class _File:
    """A file with columns of bodies."""

    partition: str
    slot: Slot
    info: BlobInfo


async def read(
    consumer: OpenConsumer,
    partitions: Collection[str] = (),
    since: datetime | None = None,
    *,
    files: int,
    limit: int,
    confined: Confined | None = None,
) -> BodyErrorsReport:
    """Read the errors in the newest files of the newest segment.

    Args:
        consumer: The consumer.
        partitions: Only these; empty: all.
        since: Only files committed at this time or later.
        files: Number of files to read.
        limit: Number of events in the report.
        confined: Reads files, which others may have written; None: a child process.

    Raises:
        StorageError: A request failed.
    """
    found: list[BodyErrorRow] = []
    groups: dict[str | None, BodyErrorGroup] = {}
    counts = Counter[str | None]()
    events, unreadable = 0, list[str]()
    newest = await _newest(consumer, partitions, since, files)
    async with contextlib.AsyncExitStack() as stack:
        if confined is None:
            confined = reader = Reader(keep=True)
            stack.push_async_callback(reader.close)
        for file in newest:
            rows = limit - len(found)
            try:
                told, last = await _errors(consumer, file, max(rows, 1), confined)
            except Unreadable as error:
                say(f"skipped a file: {file.slot.path} cannot be read ({error}); run the audit")
                unreadable.append(file.slot.path)
                continue
            events += file.slot.count
            for group in told:
                counts[group.error] += group.events
                newer = groups.setdefault(group.error, group)
                groups[group.error] = newer.model_copy(update={"events": counts[group.error]})
            if rows:
                found += last
    return BodyErrorsReport(
        container=consumer.config.sink.container,
        prefix=consumer.config.sink.prefix,
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
        files=len(newest) - len(unreadable),
        events=events,
        errors=counts.total(),
        groups=sorted(groups.values(), key=lambda group: (-group.events, group.error or "")),
        rows=sorted(found, key=lambda row: (natural(row.partition), row.sequence_number)),
        unreadable=unreadable,
    )


async def _newest(
    consumer: OpenConsumer, partitions: Collection[str], since: datetime | None, limit: int
) -> list[_File]:
    """The newest files with columns of bodies, the newest first."""
    heap: list[tuple[datetime, tuple[int, str], int, _File]] = []
    if consumer.segment is None:
        return []
    async for partition, start, info in slots(consumer.walk, consumer.config.sink.prefix, consumer.segment.segment_id):
        if (partitions and partition not in partitions) or (since is not None and info.last_modified < since):
            continue
        try:
            slot = file_in(info, start)
        except Damaged as error:
            say(f"skipped a file: {error}; run the audit")
            continue
        if slot.columns and slot.count and not slot.tombstone:
            heapq.heappush(heap, (info.last_modified, natural(partition), start, _File(partition, slot, info)))
            if len(heap) > limit:
                heapq.heappop(heap)
    return [file for *_, file in sorted(heap, key=lambda item: item[:3], reverse=True)]


async def _errors(
    consumer: OpenConsumer, file: _File, rows: int, confined: Confined
) -> tuple[list[BodyErrorGroup], list[BodyErrorRow]]:
    """The errors of a file, and its last events with one."""
    running = confined.run(
        "eventconsumer_tools.commands.parquetrows:errors",
        [blob(consumer.sink, file.info)],
        most=_LINE_BYTES * (_GROUPS + 1 + rows),
        arguments={"error": ERROR.name, "rows": rows, "groups": _GROUPS, "size": ERROR_BYTES_MAX},
    )
    count, *lines = map(json.loads, (await whole(running)).splitlines())
    where = {"partition": file.partition, "file": file.slot.path}
    groups = [
        BodyErrorGroup(error=error, events=events, sequence_number=number, **where)
        for error, events, number in lines[:count]
    ]
    listed = [
        BodyErrorRow(
            sequence_number=number, enqueued_time=datetime.fromtimestamp(time / 1000, UTC), error=error, **where
        )
        for number, time, error in lines[count:]
    ]
    return groups, listed


async def errors(
    config: Path, output: PrintFormat, *, partition: Collection[str], since: str | None, files: int, limit: int
) -> int:
    """Print the errors; the exit code."""
    try:
        limit_time = None if since is None else moment(since, datetime.now(UTC))
    except ValueError as error:
        raise CommandError(f"--since: {error}") from None
    async with opened(config) as consumer:
        report = await read(consumer, partition, limit_time, files=files, limit=limit)
    show(report, output, show_errors)
    if report.unreadable:
        return FAILED
    if report.errors:
        return DONE
    say(
        f"no errors of bodies in the {text(report.files)} newest files with columns of bodies in "
        f"{report.container}/{report.prefix}"
    )
    return NOTHING


def show_errors(report: BodyErrorsReport, console: Console) -> None:
    """Print the events, then each error once."""
    headers = ("PARTITION", "NUMBER", "ENQUEUED", "FILE", "ERROR")
    rows = [
        (row.partition, row.sequence_number, row.enqueued_time, row.file.removeprefix(f"{report.prefix}/"), row.error)
        for row in report.rows
    ]
    console.print(table_of(headers, rows, right=("NUMBER",)))
    groups = [(group.events, group.error or "other errors") for group in report.groups]
    console.print(table_of(("EVENTS", "ERROR"), groups, right=("EVENTS",)))
    shown = f" ({text(len(report.rows))} shown)" if len(report.rows) < report.errors else ""
    console.print(
        f"{text(report.errors)} of {text(report.events)} events have an error{shown}, in the {text(report.files)} "
        f"newest files with columns of bodies in {report.container}/{report.prefix}",
        soft_wrap=True,
    )
