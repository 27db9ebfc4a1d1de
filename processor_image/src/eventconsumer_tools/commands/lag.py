"""The command `lag`: the number of events of the hub that are in no file, with the leading host's code. Read-only."""

from datetime import UTC, datetime
from pathlib import Path

from eventconsumer_api.shared.console import Console
from eventconsumer_host.identity.segments import first
from eventconsumer_host.leader.lag import Measure
from eventconsumer_host.leader.stage import stage_of
from eventconsumer_host.leader.task import View
from eventconsumer_host.sink.slots import utc_now
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.model import LagReport, LagRow, LagTotals, ReportedHub
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.inspect.leases import LeaseView
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, show, table_of, text


def totals_of(rows: list[LagRow]) -> LagTotals:
    """The sum of the events and the greatest age; null if the lag of a partition is unknown. Pure."""
    events = [row.events for row in rows if row.events is not None]
    seconds = [row.seconds for row in rows if row.seconds is not None]
    unknown = len(rows) - len(events)
    if unknown:
        return LagTotals(partitions_unknown=unknown)
    return LagTotals(events=sum(events), seconds=max(seconds, default=0.0))


async def read(consumer: OpenConsumer) -> LagReport:
    """Measure once: leases, then files, then the hub's ends, so that the lag is never too low while hosts write.

    Raises:
        EventConsumerError: Storage or the hub does not respond, or the files are of another hub.
    """
    config = consumer.config
    hub, info = await consumer.describe()
    leases = await consumer.read_leases()
    segments = consumer.segments or [first(info, utc_now())]
    measure = Measure(stage_of(config, hub, info, segments, consumer.sink))
    partitions = sorted(info.partition_ids, key=natural)
    if consumer.segments:  # else no host has registered, and the containers may not exist
        await measure.follow(View(partitions, {partition: view.lease for partition, view in leases.items()}))
    await measure.ask_heads(partitions)
    rows = [_row(measure, partition, leases.get(partition), consumer.replaced) for partition in partitions]
    return LagReport(
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
        consumer_group=config.event_hub.consumer_group,
        asked=datetime.now(UTC),
        partitions=rows,
        totals=totals_of(rows),
    )


def _row(measure: Measure, partition: str, lease: LeaseView | None, replaced: bool) -> LagRow:
    found = measure.lag(partition, lease.lease if lease else None)
    ledger = measure.ledgers.get(partition)
    return LagRow(
        partition=partition,
        head=measure.head(partition),
        checkpoint=lease.number if lease else None,
        files_end=ledger.next - 1 if ledger and not replaced else None,
        events=found.events,
        seconds=found.seconds,
    )


async def lag(config: Path, output: PrintFormat) -> int:
    """Print the lag; the exit code."""
    async with opened(config, hub=True) as consumer:
        report = await read(consumer)
    show(report, output, _table)
    return DONE


def _table(report: LagReport, console: Console) -> None:
    headers = ("PARTITION", "HEAD", "CHECKPOINT", "FILES END", "EVENTS BEHIND", "SECONDS BEHIND")
    rows = [
        (row.partition, row.head, row.checkpoint, row.files_end, row.events, row.seconds) for row in report.partitions
    ]
    console.print(table_of(headers, rows, right=headers[1:]))
    totals = report.totals
    if totals.partitions_unknown:
        console.print(f"lag of {totals.partitions_unknown} partitions is unknown: the hub did not respond")
    else:
        console.print(f"{text(totals.events)} events behind, the oldest at least {text(totals.seconds)} s old")
