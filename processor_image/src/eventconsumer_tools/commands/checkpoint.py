"""The commands `checkpoint show`, `set`, `export` and `import`."""

import sys
from pathlib import Path

from pydantic import ValidationError

from eventconsumer_api.shared.console import Console
from eventconsumer_host.errors import CommandError
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_tools.commands import apply
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.model import (
    Action,
    CheckpointRow,
    CheckpointsExport,
    CheckpointsReport,
    ExportedCheckpoint,
    Step,
)
from eventconsumer_tools.commands.policy import Rules, judge
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.inspect.leases import CheckpointPosition, LeaseState
from eventconsumer_tools.inspect.partitions import by_number, by_offset, chain_of, extent, read_partitions
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, NOTHING, as_json, say, show, table_of


async def read(consumer: OpenConsumer) -> CheckpointsReport:
    """Checkpoints, and the ends of the files.

    Raises:
        EventConsumerError: A request failed.
    """
    leases, now = await consumer.read_leases(), await consumer.now()
    segment, rows = consumer.segment, []
    info = None if segment is None else HubInfo(segment.hub.namespace, segment.hub.name, segment.hub.created_at, ())
    for partition, lease in sorted(leases.items(), key=lambda item: natural(item[0])):
        reach = None
        if info is not None:
            reach = await extent(consumer, chain_of(consumer, info, partition), lease)
        rows.append(
            CheckpointRow(
                partition=partition,
                sequence_number=lease.number,
                offset=lease.position and lease.position.offset,
                state=lease.state(now),
                owner=lease.lease.owner or None,
                files_start=reach[0] if reach else None,
                files_end=reach[1] if reach else None,
            )
        )
    heading = apply.heading(consumer).model_dump(exclude={"checkpoints"})
    return CheckpointsReport(**heading, checkpoints=rows)


async def exported(consumer: OpenConsumer) -> CheckpointsExport:
    """Checkpoints, for an export.

    Raises:
        EventConsumerError: A request failed.
    """
    leases = await consumer.read_leases()
    found = [
        ExportedCheckpoint(partition=partition, sequence_number=lease.number, offset=lease.offset or None)
        if lease.number is not None
        else ExportedCheckpoint(partition=partition)
        for partition, lease in sorted(leases.items(), key=lambda item: natural(item[0]))
    ]
    return apply.heading(consumer).model_copy(update={"checkpoints": found})


async def plan_set(
    consumer: OpenConsumer, partition: str, number: int | None, offset: str | None, rules: Rules
) -> list[Step]:
    """The plan for one partition.

    Raises:
        EventConsumerError: A request failed, or the position does not exist.
    """
    hub, info = await consumer.describe()
    if partition not in info.partition_ids:
        raise CommandError(f"the hub has no partition {partition}: use one of {', '.join(info.partition_ids)}")
    found = (await read_partitions(consumer, hub, info, [partition]))[partition]
    wanted = CheckpointPosition(sequence_number=-1 if number is None else number, offset=offset or "")
    if found.state in {LeaseState.HELD, LeaseState.UNKNOWN} or (number is not None and number > found.head):
        return [judge(found, wanted, rules)]  # without reading from the hub
    chain = chain_of(consumer, info, partition)
    if number is not None:
        wanted = await by_number(hub, chain, number)
    else:
        wanted = await by_offset(hub, chain, offset or "")
    return [judge(found, wanted, rules)]


async def plan_import(consumer: OpenConsumer, document: CheckpointsExport, rules: Rules) -> list[Step]:
    """The plan for all partitions of an export.

    Raises:
        EventConsumerError: A request failed.
    """
    hub, info = await consumer.describe()
    ours = f"{consumer.namespace}/{consumer.hub_name}".lower()
    theirs = f"{document.hub.namespace}/{document.hub.name}".lower()
    known = [one.partition for one in document.checkpoints if one.partition in info.partition_ids]
    found = await read_partitions(consumer, hub, info, known) if ours == theirs else {}
    steps = []
    for one in document.checkpoints:
        to = None
        if one.sequence_number is not None:
            to = CheckpointPosition(sequence_number=one.sequence_number, offset=one.offset or "")
        here = found.get(one.partition)
        if ours != theirs:
            why, remedy = (
                f"the document is of Event Hub {theirs}, but this consumer reads {ours}",
                "import its own export",
            )
            steps.append(Step(partition=one.partition, action=Action.REFUSE, to=to, why=why, remedy=remedy))
        elif here is None:
            why, remedy = f"the hub has no partition {one.partition}", "remove it from the document"
            steps.append(Step(partition=one.partition, action=Action.REFUSE, to=to, why=why, remedy=remedy))
        elif to is None:
            why = "the document has no checkpoint for this partition: no change"
            steps.append(Step(partition=one.partition, action=Action.KEEP, from_=here.checkpoint, why=why))
        else:
            if (
                not to.offset
                and here.state not in {LeaseState.HELD, LeaseState.UNKNOWN}
                and to.sequence_number <= here.head
            ):
                chain = chain_of(consumer, info, one.partition)
                to = await by_number(hub, chain, to.sequence_number)
            steps.append(judge(here, to, rules))
    return steps


def parse(text: str, name: str) -> CheckpointsExport:
    """An export.

    Raises:
        CommandError: The text is not an export.
    """
    try:
        found = CheckpointsExport.model_validate_json(text)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) or problem["msg"] for problem in error.errors()[:5])
        raise CommandError(f"{name} is not an export of checkpoints ({fields}): use checkpoint export") from None
    partitions = [one.partition for one in found.checkpoints]
    if twice := sorted({one for one in partitions if partitions.count(one) > 1}):
        raise CommandError(f"{name} contains partitions twice: {', '.join(twice)}")
    return found


# --- commands: each prints its result and returns the exit code ---


async def show_all(config: Path, output: PrintFormat) -> int:
    """`checkpoint show`."""
    async with opened(config) as consumer:
        report = await read(consumer)
    show(report, output, _table)
    if report.checkpoints:
        return DONE
    say("no leases and no checkpoints: no host has registered yet")
    return NOTHING


async def export_to(config: Path, file: str) -> int:
    """`checkpoint export`."""
    async with opened(config) as consumer:
        document = await exported(consumer)
    text = as_json(document)
    if file == "-":
        print(text)  # noqa: T201 - the command's output
    else:
        _write_file(file, text)
        say(f"{len(document.checkpoints)} checkpoints written to {file}")
    return DONE if document.checkpoints else NOTHING


async def set_one(
    config: Path,
    output: PrintFormat,
    *,
    partition: str,
    sequence_number: int | None,
    offset: str | None,
    yes: bool,
    allow_behind: bool,
    allow_skip: bool,
) -> int:
    """`checkpoint set`."""
    async with opened(config, hub=True) as consumer:
        rules = Rules(consumer.config.leases.shared, consumer.replaced, allow_behind, allow_skip)
        steps = await plan_set(consumer, partition, sequence_number, offset, rules)
        report = await apply.settle(consumer, "set", steps, yes=yes)
    return apply.answer(report, output)


async def import_from(
    config: Path, output: PrintFormat, *, file: str, yes: bool, allow_behind: bool, allow_skip: bool
) -> int:
    """`checkpoint import`."""
    document = parse(_read_file(file), "stdin" if file == "-" else file)
    async with opened(config, hub=True) as consumer:
        rules = Rules(consumer.config.leases.shared, consumer.replaced, allow_behind, allow_skip)
        steps = await plan_import(consumer, document, rules)
        report = await apply.settle(consumer, "import", steps, yes=yes)
    return apply.answer(report, output)


def _read_file(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None


def _write_file(file: str, text: str) -> None:
    try:
        Path(file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}; use another file, or - for stdout") from None


def _table(report: CheckpointsReport, console: Console) -> None:
    headers = ("PARTITION", "CHECKPOINT", "OFFSET", "FILES FROM", "FILES TO", "STATE", "OWNER")
    rows = [
        (one.partition, one.sequence_number, one.offset, one.files_start, one.files_end, one.state.value, one.owner)
        for one in report.checkpoints
    ]
    console.print(table_of(headers, rows, right=("CHECKPOINT", "FILES FROM", "FILES TO")))
