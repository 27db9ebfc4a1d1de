"""What `checkpoint set`, `checkpoint import` and `migrate` share: a plan is made, shown, and carried out if told to."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console

from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_processor.lease.azuresdk import Names
from eventconsumer_processor.lease.azuresdk_store import AzureSdkStore
from eventconsumer_processor.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_processor.lease.store import LeaseStore
from eventconsumer_processor.tools.apply import SECONDS, backups, carry_out
from eventconsumer_processor.tools.cli import DONE, REFUSED, say
from eventconsumer_processor.tools.consumer import Consumer
from eventconsumer_processor.tools.model import (
    Action,
    CheckpointsExport,
    HubName,
    PlanReport,
    PlanSource,
    Position,
    Step,
)
from eventconsumer_processor.tools.options import Output
from eventconsumer_processor.tools.output import show, table_of
from eventconsumer_storage.lease_time import boottime

BACKUPS = "_checkpoint-backups/"


def refused(steps: Sequence[Step]) -> bool:
    """Whether one of them refuses all."""
    return any(step.action is Action.REFUSE for step in steps)


async def settle(
    consumer: Consumer, command: str, steps: Sequence[Step], *, yes: bool, source: PlanSource | None = None
) -> PlanReport:
    """Carry a plan out where that is wanted and possible.

    Args:
        consumer: Whose checkpoints.
        command: That made the plan.
        steps: The plan.
        yes: Do it.
        source: Where positions are taken over from.

    Raises:
        EventConsumerError: A request failed.
    """
    config = consumer.config
    carried = False
    if yes and not refused(steps):
        await consumer.leases.ensure_container()  # no host may have started yet
        keep = backups(consumer.leases, backup_folder(consumer), datetime.now(UTC), heading(consumer))
        watch = config.leases.layout is LeaseLayout.AZURE_SDK
        steps = await carry_out(steps, lease_store(consumer), keep, boottime, watch=watch)
        carried = not refused(steps)
    return PlanReport(
        command=command,
        dry_run=not yes,
        refused=refused(steps),
        done=carried,
        layout=config.leases.layout,
        hub=HubName(namespace=consumer.namespace, name=consumer.hub_name),
        consumer_group=config.event_hub.consumer_group,
        lease_prefix=consumer.lease_prefix,
        source=source,
        steps=list(steps),
    )


def heading(consumer: Consumer) -> CheckpointsExport:
    """An export without any checkpoint."""
    return CheckpointsExport(
        layout=consumer.config.leases.layout,
        hub=HubName(namespace=consumer.namespace, name=consumer.hub_name),
        consumer_group=consumer.config.event_hub.consumer_group,
        exported_at=datetime.now(UTC),
        checkpoints=[],
    )


def backup_folder(consumer: Consumer) -> str:
    """Where copies go: beside the folders of consumer groups, which other programs list."""
    prefix = (consumer.config.leases.location.prefix or "").strip()
    group = consumer.config.event_hub.consumer_group
    return f"{prefix}{BACKUPS}{consumer.namespace}/{consumer.hub_name.lower()}/{group}/"


def lease_store(consumer: Consumer) -> LeaseStore:
    """The leases, taken for as long as one can be."""
    leases, group = consumer.config.leases, consumer.config.event_hub.consumer_group
    prefix = consumer.lease_prefix
    if leases.layout is LeaseLayout.AZURE_SDK:
        return AzureSdkStore(consumer.leases, Names(prefix, consumer.host, consumer.hub_name, group), SECONDS, boottime)
    return EventProcessorHostStore(consumer.leases, prefix, group, SECONDS, boottime)


def answer(report: PlanReport, output: Output) -> int:
    """Print a plan; the exit code."""
    show(report, output, lambda console: _table(report, console))
    if report.refused:
        say("refused, nothing was written: see why above")
        return REFUSED
    if report.dry_run and any(step.action is Action.SET for step in report.steps):
        say("nothing was written: run again with --yes to do it")
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


def _number(position: Position | None) -> int | None:
    return position.sequence_number if position else None
