"""The command `migrate`: takes over the positions of another processor's leases or checkpoints, without loss of events.

The other container is only read. Its processors must have ended: a processor that holds a lease continues to read, and
events that it reads after the plan would be drained again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from eventconsumer_api.commands import OldProgram
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.host_config import BlobContainer, BlobLocation
from eventconsumer_host import problems
from eventconsumer_host.configuration import credential_in
from eventconsumer_host.errors import CommandError
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.lease.model import NO_NUMBER, Checkpoint
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_tools.commands import apply
from eventconsumer_tools.commands.leases import natural
from eventconsumer_tools.commands.model import Action, PlanReport, PlanSource, Step
from eventconsumer_tools.commands.policy import Rules, judge
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.inspect.leases import (
    CheckpointPosition,
    LeaseState,
    LeaseView,
    read_leases,
    read_leases_of_python,
)
from eventconsumer_tools.inspect.partitions import PartitionState, by_number, by_offset, chain_of, read_partitions
from eventconsumer_tools.inspect.storage import blob_store, opened_service, storage_time
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import NOTHING, say

LAYOUTS = {
    OldProgram.EVENT_PROCESSOR_HOST: LeaseLayout.EVENT_PROCESSOR_HOST,
    OldProgram.AZURE_SDK: LeaseLayout.AZURE_SDK,
}
"""The layout of the blobs of each program."""


@dataclass(frozen=True)
class Legacy:
    """The other processor's leases, as read."""

    source: PlanSource
    leases: Mapping[str, LeaseView]
    now: datetime  # of its storage


def needs_offset(lease: LeaseView, layout: LeaseLayout) -> bool:
    """Whether only the offset is a valid position: old libraries omit the sequence number, or write 0. Pure."""
    number = NO_NUMBER if lease.number is None else lease.number
    return not lease.damage and Checkpoint(lease.offset, number).needs_offset(layout)


def held_by(legacy: Legacy) -> dict[str, str]:
    """Partitions that the other processor still holds, with their owners. Pure."""
    return {
        partition: view.lease.owner or "a program without a name"
        for partition, view in legacy.leases.items()
        if view.state(legacy.now) is LeaseState.HELD
    }


def step_of(
    here: PartitionState, lease: LeaseView | None, wanted: CheckpointPosition | None, owner: str | None, rules: Rules
) -> Step:
    """The step for one partition. Pure.

    Args:
        here: The partition in this consumer.
        lease: The other processor's; None: it has none.
        wanted: Its position; None: it has none.
        owner: The owner that still holds it; None: no owner.
        rules: The allowed steps.
    """
    if owner is not None:
        why = f"{owner} still holds the partition in the source container"
        remedy = "stop the old processors, and wait up to two minutes until their leases expire"
        return _refuse(here, wanted, why, remedy)
    if lease is not None and lease.damage:
        why = f"the old lease cannot be read: {lease.damage} ({lease.blob})"
        return _refuse(here, wanted, why, "correct or delete the blob; without it, spec.startingPosition applies")
    if wanted is None:
        why = "no position to take over: hosts begin at spec.startingPosition"
        return Step(partition=here.partition, action=Action.KEEP, from_=here.checkpoint, why=why)
    if here.end is not None and wanted.sequence_number > here.end:
        why = (
            f"this consumer already has files from {here.start} to {here.end}: events {here.end + 1} to "
            f"{wanted.sequence_number} would be in no file"
        )
        remedy = "omit the migration: hosts continue after the files; or use another sink.prefix"
        return _refuse(here, wanted, why, remedy)
    return judge(here, wanted, rules)


def _refuse(here: PartitionState, wanted: CheckpointPosition | None, why: str, remedy: str) -> Step:
    return Step(
        partition=here.partition, action=Action.REFUSE, from_=here.checkpoint, to=wanted, why=why, remedy=remedy
    )


async def plan(consumer: OpenConsumer, legacy: Legacy) -> list[Step]:
    """The plan for all partitions of the hub.

    Raises:
        EventConsumerError: A request failed, or a position cannot be found.
    """
    hub, info = await consumer.describe()
    partitions = sorted(info.partition_ids, key=natural)
    if strange := sorted(set(legacy.leases) - set(partitions), key=natural):
        raise CommandError(
            f"the container has leases of partitions {', '.join(strange)}, which do not exist in Event Hub "
            f"{consumer.hub_name}: they belong to another hub or consumer group; check --prefix and --consumer-group"
        )
    found = await read_partitions(consumer, hub, info, partitions)
    held = held_by(legacy)
    steps = []
    for partition in partitions:
        lease, here = legacy.leases.get(partition), found[partition]
        readable = not held and here.state not in {LeaseState.HELD, LeaseState.UNKNOWN}
        wanted = None
        if lease is not None and not lease.damage:
            chain = chain_of(consumer, info, partition)
            if needs_offset(lease, legacy.source.layout) and readable:
                wanted = await by_offset(hub, chain, lease.offset)
            elif lease.number is not None and not lease.offset and readable and lease.number <= here.head:
                wanted = await by_number(hub, chain, lease.number)
            else:
                wanted = lease.position
        steps.append(step_of(here, lease, wanted, held.get(partition), Rules(shared=False, replaced=consumer.replaced)))
    return steps


async def read(consumer: OpenConsumer, blobs: BlobStore, source: PlanSource, now: datetime) -> Legacy:
    """Read the other processor's leases.

    Raises:
        SourceError: The hub did not respond.
        StorageError: A request failed.
    """
    names = Names(source.prefix, consumer.host, consumer.hub_name, source.consumer_group)
    found = await read_leases(blobs, source.layout, names)
    if not found and source.layout is LeaseLayout.EVENT_PROCESSOR_HOST:
        _, info = await consumer.describe()
        found = await read_leases_of_python(blobs, source.prefix, info.partition_ids)
    return Legacy(source, found, now)


async def migrate(
    config: Path,
    output: PrintFormat,
    *,
    program: OldProgram,
    container: str,
    prefix: str,
    consumer_group: str | None,
    connection_string_file: str | None,
    yes: bool,
) -> int:
    """`migrate`: print the plan, apply it with `--yes`; the exit code."""
    async with (
        opened(config, hub=True) as consumer,
        opened_service(consumer.config, problems.LEASES, _location(consumer, connection_string_file)) as service,
    ):
        group = consumer_group or consumer.config.event_hub.consumer_group
        source = PlanSource(layout=LAYOUTS[program], container=container, prefix=prefix, consumer_group=group)
        if connection_string_file is None and _same(consumer, source):
            raise CommandError(
                "these are the consumer's own leases: no migration required, its hosts continue from them"
            )
        now = await storage_time(service, container)
        legacy = await read(consumer, blob_store(service, container), source, now)
        if not legacy.leases:
            say(
                f"no leases or checkpoints of consumer group {group} in container {container}: check --container, "
                "--prefix, --consumer-group and --from"
            )
            return NOTHING
        steps = await plan(consumer, legacy)
        report = await apply.settle(consumer, "migrate", steps, yes=yes, source=source)
    if hint := places(report):
        say(hint)
    return apply.answer(report, output)


def places(report: PlanReport) -> str:
    """PURE: the settings with which one program uses the leases of the other; empty: their layouts differ."""
    source = report.source
    if source is None or source.layout is not report.layout:
        return ""
    here = f"to use the old leases where they are, set spec.checkpointStore.container: {source.container}"
    if source.layout is LeaseLayout.AZURE_SDK:
        return here + (f", prefix: {source.prefix!r}" if source.prefix else "")
    back = f'to go back, set storageBlobPrefix "{report.lease_prefix}" in the old program'
    return f'{here}, prefix: "{source.prefix.strip()}"; {back}'


def _location(consumer: OpenConsumer, name: str | None) -> BlobContainer:
    if name is None:
        return consumer.config.leases.location
    file = Path(name)
    if not file.exists() or file.is_dir():  # a pipe is no regular file
        raise CommandError(f"cannot read the connection string: file {file} does not exist; use an existing file")
    return BlobLocation(
        container="",
        prefix="",
        credential=credential_in(file, "--connection-string-file"),
        storage_api_version=consumer.config.leases.location.storage_api_version,
    )


def _same(consumer: OpenConsumer, source: PlanSource) -> bool:
    leases, group = consumer.config.leases, consumer.config.event_hub.consumer_group
    theirs = source.consumer_group
    same = group.lower() == theirs.lower() if leases.layout is LeaseLayout.AZURE_SDK else group == theirs
    ours = (leases.layout, leases.location.container, consumer.lease_prefix)
    return same and ours == (source.layout, source.container, source.prefix.strip())
