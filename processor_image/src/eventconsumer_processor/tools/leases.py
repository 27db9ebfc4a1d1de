"""The command `leases`: who owns which partition, and how far it was read, as the blobs say it. Only reads."""

from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console

from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_processor.audit.leases import LeaseFacts
from eventconsumer_processor.lease.azuresdk_store import FOREIGN_SECONDS
from eventconsumer_processor.tools.cli import DONE, NOTHING, say
from eventconsumer_processor.tools.consumer import Consumer, opened
from eventconsumer_processor.tools.model import HubName, LeaseRow, LeasesReport, LeaseState, Position
from eventconsumer_processor.tools.options import Output
from eventconsumer_processor.tools.output import show, table_of


def state_of(lease: LeaseFacts, layout: LeaseLayout, now: datetime) -> LeaseState:
    """Whether the partition has an owner. Pure.

    Args:
        lease: As read.
        layout: Its layout: a storage lease says who is alive, or else how long ago the owner wrote.
        now: The storage's clock.
    """
    if lease.held:
        return LeaseState.HELD
    if lease.damage:
        return LeaseState.UNKNOWN
    if not lease.owner:
        return LeaseState.FREE
    if layout is LeaseLayout.EVENT_PROCESSOR_HOST or lease.modified is None:
        return LeaseState.EXPIRED
    alive = timedelta(seconds=FOREIGN_SECONDS if lease.seconds is None else lease.seconds)
    return LeaseState.HELD if now - lease.modified < alive else LeaseState.EXPIRED


def natural(partition: str) -> tuple[int, str]:
    """Orders partition ids as numbers where they are."""
    return (int(partition) if partition.isdecimal() else -1, partition)


def position_of(lease: LeaseFacts) -> Position | None:
    """The checkpoint in a lease; None where it has none."""
    return None if lease.checkpoint is None else Position(sequence_number=lease.checkpoint, offset=lease.offset)


async def read(consumer: Consumer) -> LeasesReport:
    """Read all leases.

    Raises:
        StorageError: A request failed.
    """
    leases, layout = await consumer.read_leases(), consumer.config.leases.layout
    now = await consumer.now()
    return LeasesReport(
        layout=layout,
        container=consumer.config.leases.location.container,
        hub=HubName(namespace=consumer.namespace, name=consumer.hub_name),
        consumer_group=consumer.config.event_hub.consumer_group,
        leases=[
            LeaseRow(
                partition=partition,
                state=state_of(lease, layout, now),
                owner=lease.owner or None,
                epoch=lease.epoch,
                checkpoint=position_of(lease),
                modified=lease.modified,
                etag=lease.etag,
                blob=lease.blob,
                problem=lease.damage or None,
            )
            for partition, lease in sorted(leases.items(), key=lambda item: natural(item[0]))
        ],
    )


async def leases(config: Path, output: Output) -> int:
    """Print all leases; the exit code."""
    async with opened(config) as consumer:
        report = await read(consumer)
    show(report, output, lambda console: _table(report, console))
    if report.leases:
        return DONE
    say(f"no leases in container {report.container}: no host has registered yet; the first one makes them")
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
            console.print(f"partition {row.partition}: {row.problem} ({row.blob})", markup=False, soft_wrap=True)
