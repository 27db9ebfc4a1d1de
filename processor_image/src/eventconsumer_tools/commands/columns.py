"""The command `columns infer`: proposes columns for the bodies in the newest file of each partition. Read-only."""

import io
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import yaml

from eventconsumer_api.shared.console import Console
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_host.errors import CommandError
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.confined.reader import Confined, Reader, Unreadable, blob, whole
from eventconsumer_storage.errors import Damaged
from eventconsumer_tools.commands.model import ColumnsReport, OmittedRow, ReportedHub, UnfitRow
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.inspect.files import file_in, slots
from eventconsumer_tools.inspect.infer import infer, spec_of, unfitting
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, NOTHING, say, show, text

BODIES_BYTES = 4 * 1024**2
"""Size of the bodies that are looked at: a parsed one may take 20 times its size."""
_BODY_BYTES = 1024**2  # the largest body of an event
_LINE_BYTES = 64  # of an event beside its body

Event = tuple[str, int, bytes | None]
"""Partition, sequence number and body."""


async def read(
    consumer: OpenConsumer, partitions: Collection[str] = (), *, events: int, confined: Confined | None = None
) -> ColumnsReport:
    """Propose columns.

    Args:
        consumer: The consumer.
        partitions: Only these; empty: all.
        events: Number of events to look at.
        confined: Reads files, which others may have written; None: child processes.

    Raises:
        CommandError: The files are not of format Parquet.
        StorageError: A request failed.
    """
    if consumer.config.files.format is not FileFormat.PARQUET:
        raise CommandError("spec.sink.format: only Parquet files have columns of bodies")
    newest = await _newest(consumer, partitions)
    found = [each async for each in _events(consumer, newest, events, confined or Reader())]
    proposal = infer([body for *_, body in found])
    rows = []
    for error, count, index in unfitting(proposal.errors):
        partition, number, _ = found[index]
        rows.append(UnfitRow(events=count, partition=partition, sequence_number=number, error=error))
    return ColumnsReport(
        container=consumer.config.sink.container,
        prefix=consumer.config.sink.prefix,
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
        partitions=len({partition for partition, *_ in found}),
        events=len(found),
        fitting=len(found) - len(proposal.errors),
        body=spec_of(proposal.columns) if proposal.columns else None,
        unfit=rows,
        omitted=[OmittedRow(member=member, reason=reason) for member, reason in proposal.omitted.items()],
    )


async def _newest(consumer: OpenConsumer, partitions: Collection[str]) -> dict[str, BlobInfo]:
    """The newest file with events of each partition, the newest first."""
    found: dict[str, BlobInfo] = {}
    if consumer.segment is not None:
        async for partition, start, info in slots(
            consumer.walk, consumer.config.sink.prefix, consumer.segment.segment_id
        ):
            try:
                slot = file_in(info, start)
            except Damaged as error:
                say(f"skipped a file: {error}; run the audit")
                continue
            if slot.count and not slot.tombstone and (not partitions or partition in partitions):
                found[partition] = info  # a listing is in the order of starts
    return dict(sorted(found.items(), key=lambda item: item[1].last_modified, reverse=True))


async def _events(
    consumer: OpenConsumer, files: dict[str, BlobInfo], events: int, confined: Confined
) -> AsyncIterator[Event]:
    """Events of these files, of each about as many."""
    size = BODIES_BYTES
    for place, (partition, info) in enumerate(files.items()):
        left = len(files) - place
        limits = {"events": max(1, events // left), "size": max(size // left, min(size, _BODY_BYTES))}
        running = confined.run(
            "eventconsumer_tools.commands.parquetrows:bodies",
            [blob(consumer.sink, info)],
            most=2 * limits["size"] + _LINE_BYTES * limits["events"],
            arguments=limits,
        )
        try:
            lines = io.BytesIO(await whole(running))
        except Unreadable as error:
            say(f"skipped a file: {info.name} cannot be read ({error}); run the audit")
            continue
        for line in lines:
            number, body = json.loads(line)
            content = None if body is None else b64decode(body)
            size -= len(content or b"")
            events -= 1
            yield partition, number, content
        if events <= 0 or size <= 0:
            return


async def infer_all(config: Path, output: PrintFormat, *, partition: Collection[str], events: int) -> int:
    """Print the proposal; the exit code."""
    async with opened(config) as consumer:
        report = await read(consumer, partition, events=events)
    show(report, output, show_proposal)
    if report.body is not None:
        return DONE
    say(f"no members of JSON objects in {text(report.events)} events of {report.container}/{report.prefix}")
    return NOTHING


def show_proposal(report: ColumnsReport, console: Console) -> None:
    """Print YAML to paste, with comments."""
    lines = [
        f"# {text(report.fitting)} of {text(report.events)} events of {text(report.partitions)} partitions fit these "
        "columns exactly.",
        *(
            f"# {text(row.events)} do not, such as {row.sequence_number} of partition {row.partition}: {row.error}"
            for row in report.unfit
        ),
        *(f"# No column for {json.dumps(row.member)}: {row.reason}." for row in report.omitted),
    ]
    if report.body is not None:
        document = yaml.safe_dump({"spec": {"sink": {"body": report.body}}}, sort_keys=False, width=200)
        lines += document.splitlines()
    for line in lines:
        console.print(line, soft_wrap=True)
