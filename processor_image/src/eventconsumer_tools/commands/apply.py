"""Applies a plan for checkpoints: `checkpoint set`, `checkpoint import` and `migrate` print a plan, or apply it.

All or nothing: before the first write, this command acquires the leases or ownerships of all partitions, and compares
their checkpoints with the plan. A host that starts during the command waits, as for any other owner. A copy of each old
checkpoint is kept.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from uuid import uuid4

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.shared.console import Console
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_host.errors import LeaseInvalid, LeaseLost
from eventconsumer_host.lease.azuresdk_store import AzureSdkStore
from eventconsumer_host.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_host.lease.model import Checkpoint, Lease, LeaseListing
from eventconsumer_host.lease.store import LeaseStore, for_each
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.lease_time import boottime
from eventconsumer_tools.commands.model import (
    Action,
    CheckpointsExport,
    ExportedCheckpoint,
    PlanReport,
    PlanSource,
    ReportedHub,
    Step,
)
from eventconsumer_tools.commands.policy import SUSPEND
from eventconsumer_tools.inspect.consumer import OpenConsumer
from eventconsumer_tools.inspect.leases import CheckpointPosition
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, REFUSED, say, show, table_of

BACKUPS = "_checkpoint-backups/"
SECONDS = 60  # of the acquired leases: Azure's maximum
WATCH_SECONDS = 130.0  # above the longest time after which an owner that does not renew has ended
LOOK_SECONDS = 1.0

Keep = Callable[[str, CheckpointPosition | None], Awaitable[str | None]]
"""Keeps a copy of a partition's checkpoint; returns its blob's name, None: there was no checkpoint."""


def refused(steps: Sequence[Step]) -> bool:
    """Whether a step is refused, and so the plan."""
    return any(step.action is Action.REFUSE for step in steps)


async def settle(
    consumer: OpenConsumer, command: str, steps: Sequence[Step], *, yes: bool, source: PlanSource | None = None
) -> PlanReport:
    """Apply a plan if requested and possible.

    Args:
        consumer: The owner of the checkpoints.
        command: The command that made the plan.
        steps: The plan.
        yes: Apply the plan.
        source: The source of migrated positions.

    Raises:
        EventConsumerError: A request failed.
    """
    config = consumer.config
    carried = False
    if yes and not refused(steps):
        await consumer.leases.ensure_container()  # no host may have started yet
        keep = backups(consumer.leases, backup_folder(consumer), datetime.now(UTC), heading(consumer))
        watch = config.leases.layout is LeaseLayout.AZURE_SDK
        steps = await carry_out(steps, longest_lease_store(consumer), keep, boottime, watch=watch)
        carried = not refused(steps)
    return PlanReport(
        command=command,
        dry_run=not yes,
        refused=refused(steps),
        done=carried,
        layout=config.leases.layout,
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
        consumer_group=config.event_hub.consumer_group,
        lease_prefix=consumer.lease_prefix,
        source=source,
        steps=list(steps),
    )


def heading(consumer: OpenConsumer) -> CheckpointsExport:
    """An export without any checkpoint."""
    return CheckpointsExport(
        layout=consumer.config.leases.layout,
        hub=ReportedHub(namespace=consumer.namespace, name=consumer.hub_name),
        consumer_group=consumer.config.event_hub.consumer_group,
        exported_at=datetime.now(UTC),
        checkpoints=[],
    )


def backup_folder(consumer: OpenConsumer) -> str:
    """The folder of the copies: outside of the folders of consumer groups, which other programs list."""
    prefix = (consumer.config.leases.location.prefix or "").strip()
    group = consumer.config.event_hub.consumer_group
    return f"{prefix}{BACKUPS}{consumer.namespace}/{consumer.hub_name.lower()}/{group}/"


def longest_lease_store(consumer: OpenConsumer) -> LeaseStore:
    """The leases, with the maximum duration."""
    names = consumer.lease_names
    if consumer.config.leases.layout is LeaseLayout.AZURE_SDK:
        return AzureSdkStore(consumer.leases, names, SECONDS, boottime)
    dialect = consumer.config.leases.dialect
    return EventProcessorHostStore(consumer.leases, names.prefix, names.group, SECONDS, boottime, dialect=dialect)


async def carry_out(
    steps: Sequence[Step],
    store: LeaseStore,
    keep: Keep,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    *,
    watch: bool,
) -> list[Step]:
    """Set the checkpoints of a plan without refused steps.

    Args:
        steps: The plan.
        store: The leases.
        keep: Keeps replaced checkpoints.
        clock: Seconds.
        sleep: Waits.
        watch: Whether only a renewal shows that an owner is alive, as in the layout AzureSdk.

    Returns:
        The steps, done; or, after a concurrent change, refused, with no checkpoint written.

    Raises:
        EventConsumerError: A request failed; the message lists the partitions that were written.
    """
    wanted = {step.partition: step for step in steps if step.action is Action.SET}
    if not wanted:
        return list(steps)
    listing = await _look(store, list(wanted), clock, sleep, WATCH_SECONDS if watch else 0.0)
    owner = f"checkpoint-tool.{uuid4()}"
    taken: dict[str, Lease] = {}
    refused: dict[str, Step] = {}

    async def take(step: Step) -> None:
        lease = listing.leases.get(step.partition)
        if lease is None:
            why = listing.invalid[step.partition]
            refused[step.partition] = _refuse(step, why.why, why.remedy)
            return
        if lease.leased:
            owner_name = lease.owner or "a program without a name"
            refused[step.partition] = _refuse(step, f"{owner_name} owns the partition", SUSPEND)
            return
        try:
            got = await store.acquire(lease, owner)
        except LeaseInvalid as error:
            refused[step.partition] = _refuse(step, str(error), "delete the blob: the next host creates it again")
            return
        if got is None:
            refused[step.partition] = _refuse(step, "another program acquired the partition at the same time", SUSPEND)
            return
        taken[step.partition] = got.lease
        if _sequence_number(got.lease.checkpoint) != (step.from_.sequence_number if step.from_ else -1):
            refused[step.partition] = _refuse(step, "another program moved the checkpoint", "run this again")

    done: dict[str, Step] = {}
    try:
        await for_each(wanted.values(), take)
        if not refused:
            for step in wanted.values():
                done[step.partition] = await _write(step, taken, store, keep)
    except EventConsumerError as error:
        written = ", ".join(done) or "none"
        raise EventConsumerError(
            f"could not set all checkpoints: {error}; partitions written: {written}; run this again"
        ) from error
    finally:
        for lease in taken.values():
            with contextlib.suppress(EventConsumerError):
                await store.release(lease)
    return [refused.get(step.partition) or done.get(step.partition) or step for step in steps]


def backups(blobs: BlobStore, folder: str, now: datetime, document: CheckpointsExport) -> Keep:
    """Keeps copies as blobs in a folder that readers of leases do not list.

    Args:
        blobs: The lease container.
        folder: Their folder, with a slash at the end.
        now: Part of their names, in UTC.
        document: The heading of the copies: hub, consumer group and layout.
    """

    async def keep(partition: str, position: CheckpointPosition | None) -> str | None:
        if position is None:
            return None
        name = f"{folder}{now:%Y%m%dT%H%M%S.%fZ}-{partition}.json"
        kept = ExportedCheckpoint(partition=partition, sequence_number=position.sequence_number, offset=position.offset)
        copy = document.model_copy(update={"checkpoints": [kept]})
        await blobs.put(name, copy.model_dump_json(by_alias=True, indent=2).encode(), if_absent=True)
        return name

    return keep


async def _write(step: Step, taken: dict[str, Lease], store: LeaseStore, keep: Keep) -> Step:
    partition, to = step.partition, step.to
    if to is None:
        raise LeaseLost(f"partition {partition} has no new position")
    backup = await keep(partition, step.from_)
    lease = await store.advance(taken[partition], Checkpoint(to.offset, to.sequence_number))
    taken[partition] = lease
    found = _sequence_number(lease.checkpoint)
    if found != to.sequence_number:
        raise LeaseLost(f"partition {partition}: another program moved its checkpoint to {found}")
    return step.model_copy(update={"backup": backup, "done": True})


async def _look(
    store: LeaseStore,
    partitions: list[str],
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    seconds: float,
) -> LeaseListing:
    """The leases, after the time that shows whether their owners are alive."""
    since = clock()
    first: dict[str, str] | None = None
    while True:
        listing = await store.list(partitions)
        leased = {lease.partition: lease.etag for lease in listing.leases.values() if lease.leased}
        if first is None:
            first = leased
            if leased and seconds:
                names = ", ".join(leased)
                say(f"partitions {names} have an owner: waiting up to {seconds:.0f} s for a renewal")
        alive = any(first.get(partition) != etag for partition, etag in leased.items())
        if not leased or alive or clock() - since >= seconds:
            return listing
        await sleep(LOOK_SECONDS)


def _sequence_number(checkpoint: Checkpoint | None) -> int:
    return max(-1, checkpoint.sequence_number) if checkpoint else -1


def _refuse(step: Step, why: str, remedy: str) -> Step:
    return step.model_copy(update={"action": Action.REFUSE, "why": why, "remedy": remedy})


def answer(report: PlanReport, output: PrintFormat) -> int:
    """Print a plan; the exit code."""
    show(report, output, _table)
    if report.refused:
        say("refused, nothing was written: see WHY above")
        return REFUSED
    if report.dry_run and any(step.action is Action.SET for step in report.steps):
        say("nothing was written: run again with --yes to apply the plan")
    return DONE


def _table(report: PlanReport, console: Console) -> None:
    headers = ("PARTITION", "ACTION", "FROM", "TO", "WHY")
    rows = [
        (step.partition, "done" if step.done else step.action.value, _number(step.from_), _number(step.to), _why(step))
        for step in report.steps
    ]
    console.print(table_of(headers, rows, right=("FROM", "TO")))
    for step in report.steps:
        if step.backup:
            console.print(f"partition {step.partition}: the old checkpoint is kept in {step.backup}", soft_wrap=True)


def _why(step: Step) -> str:
    return f"{step.why}: {step.remedy}" if step.remedy else step.why


def _number(position: CheckpointPosition | None) -> int | None:
    return position.sequence_number if position else None
