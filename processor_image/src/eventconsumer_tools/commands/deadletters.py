"""The commands `deadletters list`, `show`, `redrive` and `drop`, for the letters of the newest segment.

`redrive` writes a request for each letter, which the host that owns the partition meets: see `handler.deadletter`.
`drop` first writes a record of the letters, and then removes them.
"""

import base64
import heapq
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from uuid import uuid4

from rich.text import Text

from eventconsumer_api.shared.console import Console
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_host.handler.deadletter import UNDECODED, LetterFolder, StoredLetter
from eventconsumer_host.lease.store import for_each
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import Conflict, Damaged, NotFound
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.model import (
    DeadLetterReport,
    DeadLetterRow,
    DeadLettersPlan,
    DeadLettersReport,
    DeadLettersStep,
    ReportedHub,
)
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, NOTHING, REFUSED, say, show, table_of, text

MOST_REQUESTS = 10_000  # of one command: every host lists all requests
_INDENT = "  "
_SHOWN_CHARACTERS = 120  # of an error in the list

LetterKey = tuple[str, int]
"""Partition and sequence number."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters a command is for.

    Attributes:
        partitions: Only these; empty: all.
        numbers: Only these, of one partition; empty: all.
    """

    partitions: Collection[str] = ()
    numbers: Collection[int] = ()

    def has(self, place: LetterKey) -> bool:
        """Whether a letter is selected."""
        partition, number = place
        return (not self.partitions or partition in self.partitions) and (not self.numbers or number in self.numbers)


@dataclass(frozen=True, slots=True)
class Found:
    """The selected letters, by partition and number, and the requests to pass letters again, from one listing."""

    letters: dict[LetterKey, BlobInfo]
    requests: dict[LetterKey, BlobInfo]


def folder_of(consumer: OpenConsumer) -> LetterFolder | None:
    """The folder of the newest segment; None: no host has registered yet."""
    if consumer.segment is None:
        return None
    return LetterFolder(consumer.config.sink.prefix, consumer.segment.segment_id)


async def find(consumer: OpenConsumer, folder: LetterFolder, selected: Selection) -> Found:
    """List letters and requests.

    Raises:
        StorageError: A request failed.
    """
    found = Found({}, {})
    async for info in consumer.walk(folder.path):
        name = folder.parse(info.name)
        if name is not None and selected.has(name[1:]):
            (found.requests if name[0] else found.letters)[name[1:]] = info
    return found


async def read(consumer: OpenConsumer, selected: Selection, limit: int = 0) -> DeadLettersReport:
    """The newest letters, in the order of partitions and numbers.

    Args:
        consumer: The consumer.
        selected: Which letters.
        limit: The number of letters to read; 0: all.

    Raises:
        StorageError: A request failed.
    """
    folder, sink = folder_of(consumer), consumer.config.sink
    found = Found({}, {}) if folder is None else await find(consumer, folder, selected)
    newest: Collection[LetterKey] = found.letters
    if limit:
        newest = heapq.nlargest(limit, found.letters, key=lambda place: (found.letters[place].last_modified, place))
    rows: list[DeadLetterRow | None] = []
    if folder is not None:

        async def row(place: LetterKey) -> DeadLetterRow | None:
            letter = await _read(consumer, folder, place)
            return None if letter is None else _row(letter, requested=place in found.requests)

        rows = await for_each(sorted(newest, key=_order), row)
    shown = [each for each in rows if each is not None]
    return DeadLettersReport(
        container=sink.container,
        folder="" if folder is None else folder.path,
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
        letters=shown,
        total=len(found.letters),
        shown=len(shown),
    )


async def read_one(consumer: OpenConsumer, partition: str, number: int) -> DeadLetterReport | None:
    """One letter; None: the event has none.

    Raises:
        StorageError: A request failed, or the blob is not a dead letter.
    """
    folder = folder_of(consumer)
    found = None if folder is None else await folder.read(consumer.sink, partition, number)
    if folder is None or found is None:
        return None
    requested = await consumer.sink.head(folder.request(partition, number)) is not None
    return DeadLetterReport(name=found.name, redrive_requested=requested, letter=found.letter)


async def redrive(consumer: OpenConsumer, selected: Selection, *, yes: bool) -> DeadLettersPlan:
    """Request that letters are passed to the handler again, or print what would be requested.

    Raises:
        StorageError: A request failed; run the command again for the remaining letters.
    """
    folder, plan = folder_of(consumer), _plan(consumer, "redrive", dry_run=not yes)
    if refusal := _refusal(consumer):
        return plan.model_copy(update={"refused": True, "why": refusal[0], "remedy": refusal[1]})
    if folder is None:
        return plan
    found = await find(consumer, folder, selected)
    places = sorted(found.letters, key=_order)

    async def usable(place: LetterKey) -> bool:
        letter = await _read(consumer, folder, place)
        return letter is not None and letter.letter.error.type != UNDECODED

    chosen = places[:MOST_REQUESTS]
    wanted = [place for place, good in zip(chosen, await for_each(chosen, usable), strict=True) if good]
    if yes:
        await for_each(wanted, lambda place: consumer.sink.put(folder.request(*place), b""))
    why, remedy = [], []
    if unusable := len(chosen) - len(wanted):
        why.append(f"{text(unusable)} letters stay: their events cannot be decoded, or their files are damaged")
        remedy.append("list shows the errors")
    if later := len(places) - len(chosen):
        why.append(f"{text(later)} more letters match, but one command requests at most {text(MOST_REQUESTS)}")
        remedy.append("run the command again after these")
    return plan.model_copy(
        update={
            "done": yes,
            "steps": _steps(wanted),
            "remaining": len(places) - len(wanted),
            "why": "; ".join(why),
            "remedy": "; ".join(remedy),
        }
    )


async def drop(consumer: OpenConsumer, selected: Selection, *, yes: bool) -> DeadLettersPlan:
    """Remove letters, or print which ones would be removed.

    Raises:
        StorageError: A request failed; run the command again for the remaining letters.
    """
    folder, plan = folder_of(consumer), _plan(consumer, "drop", dry_run=not yes)
    if folder is None:
        return plan
    found = await find(consumer, folder, selected)
    places, left = sorted(found.letters, key=_order), 0
    record = None
    if yes and places:
        now = datetime.now(UTC)
        record = folder.dropped(f"{now:%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}")
        numbers: dict[str, list[int]] = {}
        for partition, number in places:
            numbers.setdefault(partition, []).append(number)
        document = {"version": 1, "droppedAt": now.isoformat(timespec="seconds"), "letters": numbers}
        await consumer.sink.put(record, json.dumps(document).encode(), if_absent=True)
        removed = await for_each(places, lambda place: _remove(consumer, found.letters[place]))
        left = removed.count(False)
        gone = [
            found.requests[place]
            for place, done in zip(places, removed, strict=True)
            if done and place in found.requests
        ]
        await for_each(gone, lambda info: _remove(consumer, info))
        places = [place for place, done in zip(places, removed, strict=True) if done]
    why = (
        f"{text(left)} letters changed during the command: a host has passed them to the handler again" if left else ""
    )
    return plan.model_copy(
        update={
            "done": yes,
            "steps": _steps(places),
            "remaining": left,
            "record": record,
            "why": why,
            "remedy": "list shows their new errors; run the command again to drop them" if left else "",
        }
    )


async def _remove(consumer: OpenConsumer, info: BlobInfo) -> bool:
    """Remove a blob; returns whether it is gone."""
    try:
        await consumer.sink.remove(info.name, if_match=info.etag)
    except NotFound:
        return True
    except Conflict:
        return await consumer.sink.head(info.name) is None  # Azure answers so for a blob that does not exist, too
    return True


async def _read(consumer: OpenConsumer, folder: LetterFolder, place: LetterKey) -> StoredLetter | None:
    """A letter; None: it is gone, or damaged, which is said."""
    try:
        return await folder.read(consumer.sink, *place)
    except Damaged as error:
        say(f"skipped a dead letter: {error}")
        return None


def _refusal(consumer: OpenConsumer) -> tuple[str, str] | None:
    """Why no letter can be passed again, and the remedy."""
    processing = consumer.config.processing
    if processing.handler is None:
        return "the consumer has no handler", "set spec.processing.handler, or process the letters with another program"
    if processing.handler_mode is HandlerMode.TRANSFORM:
        return (
            "with processing.handlerMode Transform the handler's rows go to the slot of their event, which is written",
            "publish the event again (show -o json prints it), and drop the letter",
        )
    return None


def _plan(consumer: OpenConsumer, command: str, *, dry_run: bool) -> DeadLettersPlan:
    return DeadLettersPlan(
        command=command,
        dry_run=dry_run,
        refused=False,
        done=False,
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
    )


def _steps(places: Sequence[LetterKey]) -> list[DeadLettersStep]:
    """One step for each partition of sorted places."""
    numbers: dict[str, list[int]] = {}
    for partition, number in places:
        numbers.setdefault(partition, []).append(number)
    return [
        DeadLettersStep(partition=partition, letters=len(own), first=own[0], last=own[-1])
        for partition, own in numbers.items()
    ]


def _row(found: StoredLetter, *, requested: bool) -> DeadLetterRow:
    letter = found.letter
    return DeadLetterRow(
        partition=letter.partition_id,
        sequence_number=letter.sequence_number,
        enqueued_time=letter.enqueued_time,
        error=letter.error.type,
        message=letter.error.message,
        attempts=letter.attempts,
        last_attempt=letter.last_attempt,
        redrive_requested=requested,
        name=found.name,
    )


def _order(place: LetterKey) -> tuple[tuple[int, str], int]:
    return natural(place[0]), place[1]


# --- commands: each prints its result and returns the exit code ---


async def list_all(config: Path, output: PrintFormat, *, partition: Collection[str], limit: int) -> int:
    """`deadletters list`."""
    async with opened(config) as consumer:
        report = await read(consumer, Selection(partition), limit)
    show(report, output, _table)
    if report.total:
        return DONE
    say("no dead letters: the handler has processed all events" if report.folder else "no host has registered yet")
    return NOTHING


async def show_one(config: Path, output: PrintFormat, *, partition: str, sequence_number: int) -> int:
    """`deadletters show`."""
    async with opened(config) as consumer:
        report = await read_one(consumer, partition, sequence_number)
    if report is None:
        say(f"event {sequence_number} of partition {partition} has no dead letter: deadletters list shows all")
        return NOTHING
    show(report, output, _details, lines=True)
    return DONE


async def redrive_some(
    config: Path,
    output: PrintFormat,
    *,
    partition: Collection[str],
    sequence_number: Collection[int],
    every: bool,
    yes: bool,
) -> int:
    """`deadletters redrive`; with `every`, the others are empty."""
    async with opened(config) as consumer:
        plan = await redrive(consumer, Selection(partition, sequence_number), yes=yes)
    return _answer(
        plan, output, "hosts look for requests every 30 seconds: deadletters list shows which letters are left"
    )


async def drop_some(
    config: Path,
    output: PrintFormat,
    *,
    partition: Collection[str],
    sequence_number: Collection[int],
    every: bool,
    yes: bool,
) -> int:
    """`deadletters drop`; with `every`, the others are empty."""
    async with opened(config) as consumer:
        plan = await drop(consumer, Selection(partition, sequence_number), yes=yes)
    return _answer(plan, output, f"their numbers are kept in {plan.record}")


def _answer(plan: DeadLettersPlan, output: PrintFormat, then: str) -> int:
    show(plan, output, _plan_table)
    if plan.why:
        say(f"{'refused: ' if plan.refused else ''}{plan.why}: {plan.remedy}")
    if plan.refused:
        return REFUSED
    if not plan.steps:
        say("no matching dead letters")
        return NOTHING
    say(then if plan.done else "nothing was written: run again with --yes to apply the plan")
    return DONE


def _plan_table(plan: DeadLettersPlan, console: Console) -> None:
    headers = ("PARTITION", "LETTERS", "FIRST", "LAST")
    rows = [(step.partition, step.letters, step.first, step.last) for step in plan.steps]
    console.print(table_of(headers, rows, right=headers[1:]))


def _table(report: DeadLettersReport, console: Console) -> None:
    headers = ("PARTITION", "NUMBER", "ENQUEUED", "ERROR", "ATTEMPTS", "LAST ATTEMPT", "REDRIVE")
    rows = [
        (
            row.partition,
            row.sequence_number,
            row.enqueued_time,
            f"{row.error.rpartition('.')[2]}: {' '.join(row.message.split())[:_SHOWN_CHARACTERS]}",
            row.attempts,
            row.last_attempt,
            "requested" if row.redrive_requested else None,
        )
        for row in report.letters
    ]
    console.print(table_of(headers, rows, right=("NUMBER", "ATTEMPTS")))
    left_out = f" ({report.shown:,} shown)" if report.shown < report.total else ""
    console.print(f"{text(report.total)} dead letters{left_out} in {report.container}/{report.folder}", soft_wrap=True)


def _details(report: DeadLetterReport, console: Console) -> None:
    letter = report.letter
    rows: list[tuple[str, object]] = [
        ("partition", letter.partition_id),
        ("sequence number", str(letter.sequence_number)),
        ("offset", letter.offset),
        ("enqueued", letter.enqueued_time),
        ("partition key", letter.partition_key),
        ("content type", letter.content_type),
        ("message id", letter.message_id),
        ("correlation id", letter.correlation_id),
        *((f"property {key}", value) for key, value in letter.properties.items()),
        *((f"system property {key}", value) for key, value in letter.system_properties.items()),
        ("handler", letter.handler),
        ("host", letter.host),
        ("attempts", letter.attempts),
        ("first attempt", letter.first_attempt),
        ("last attempt", letter.last_attempt),
        ("redrive", "requested" if report.redrive_requested else None),
        ("file", report.name),
    ]
    for name, value in rows:
        console.print(Text(f"{name:<20}{text(value)}"), soft_wrap=True)
    # Lines of others are indented: none of them looks like one of ours.
    error = indent(f"{letter.error.message}\n{letter.error.traceback}", _INDENT)
    console.print(Text(f"\n{letter.error.type}:\n{error}"), soft_wrap=True)
    if letter.body is None:
        console.print("no body")
    elif letter.body_text is not None:
        console.print(
            Text(f"body, {len(letter.body_text.encode()):,} bytes of text:\n{indent(letter.body_text, _INDENT)}"),
            soft_wrap=True,
        )
    else:
        size = len(base64.b64decode(letter.body))
        console.print(Text(f"body, {size:,} bytes in base64:\n{indent(letter.body, _INDENT)}"), soft_wrap=True)
