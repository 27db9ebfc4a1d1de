"""The command `leases`: owner and checkpoint of each partition, from the lease blobs. Read-only."""

from pathlib import Path

from eventconsumer_api.shared.console import Console
from eventconsumer_tools.commands.model import LeaseRow, LeasesReport, ReportedHub
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, NOTHING, say, show, table_of


def natural(partition: str) -> tuple[int, str]:
    """Sort key of a partition id: numeric ids in numeric order."""
    return (int(partition) if partition.isdecimal() else -1, partition)


async def read(consumer: OpenConsumer) -> LeasesReport:
    """Read all leases.

    Raises:
        StorageError: A request failed.
    """
    leases, now = await consumer.read_leases(), await consumer.now()
    return LeasesReport(
        layout=consumer.config.leases.layout,
        container=consumer.config.leases.location.container,
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
        consumer_group=consumer.config.event_hub.consumer_group,
        leases=[
            LeaseRow(
                partition=partition,
                state=lease.state(now),
                owner=lease.lease.owner or None,
                epoch=lease.epoch,
                checkpoint=lease.position,
                modified=lease.modified,
                etag=lease.lease.etag.strip('"'),
                blob=lease.blob,
                problem=lease.damage or None,
            )
            for partition, lease in sorted(leases.items(), key=lambda item: natural(item[0]))
        ],
    )


async def leases(config: Path, output: PrintFormat) -> int:
    """Print all leases; the exit code."""
    async with opened(config) as consumer:
        report = await read(consumer)
    show(report, output, _table)
    if report.leases:
        return DONE
    say(f"no leases in container {report.container}: no host has registered yet; the first one creates them")
    return NOTHING


def _table(report: LeasesReport, console: Console) -> None:
    rows = [
        (
            row.partition,
            row.state.value,
            row.owner,
            row.epoch,
            row.checkpoint and row.checkpoint.sequence_number,
            row.checkpoint and row.checkpoint.offset,
            row.modified,
        )
        for row in report.leases
    ]
    headers = ("PARTITION", "STATE", "OWNER", "EPOCH", "CHECKPOINT", "OFFSET", "MODIFIED")
    console.print(table_of(headers, rows, right=("EPOCH", "CHECKPOINT")))
    for row in report.leases:
        if row.problem:
            console.print(f"partition {row.partition}: {row.problem} ({row.blob})", soft_wrap=True)
