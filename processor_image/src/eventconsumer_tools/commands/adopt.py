"""The command `adopt`: transfers the chain of files at `spec.sink`, and the leases, to this EventConsumer.

Two records change: the resource in the record of the chain, and the chain in the record of the leases if they belonged
to another chain. Both are written while this command holds the lease of `<prefix>/_leader`. A host of the resource that
drains into the chain holds this lease, so the command is refused while hosts of another EventConsumer run.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from eventconsumer_api.shared.console import Console
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_api.wire.identity import ChainRecord, LeaseRecord, chain_name, consumer_of
from eventconsumer_host.identity.records import (
    CLAIM_SECONDS,
    StoredRecord,
    belongs,
    leader_name,
    read_chain,
    read_lease_record,
    take_lead,
)
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.sink.slots import utc_now
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.errors import Conflict, Damaged, StorageError
from eventconsumer_storage.lease_time import boottime
from eventconsumer_tools.commands.apply import longest_lease_store
from eventconsumer_tools.commands.model import Action, AdoptReport, AdoptStep
from eventconsumer_tools.inspect.consumer import OpenConsumer, opened
from eventconsumer_tools.inspect.leases import LeaseState
from eventconsumer_tools.inspect.records import expected_lease_record, read_chain_record
from eventconsumer_tools.options import PrintFormat
from eventconsumer_tools.output import DONE, NOTHING, REFUSED, say, show, table_of

CHAIN, LEASES = "chain", "leases"


async def plan(consumer: OpenConsumer) -> list[AdoptStep]:
    """The planned changes; no steps: there is no chain.

    Raises:
        Damaged: A record cannot be read.
        StorageError: A request failed.
    """
    chain = await read_chain_record(consumer.sink, consumer.config.sink.prefix)
    if chain is None:
        return []
    steps = await _plan(consumer, chain)
    info = await consumer.sink.head(leader_name(consumer.config.sink.prefix))
    if info is None or not info.leased:
        return steps
    return [_in_use(consumer, chain.record.resource, step) if step.action is Action.SET else step for step in steps]


async def carry_out(consumer: OpenConsumer) -> list[AdoptStep]:
    """Change the records, or refuse; returns the executed steps.

    Raises:
        Damaged: A record cannot be read.
        StorageError: A request failed; run the command again to complete the change.
    """
    steps = await plan(consumer)
    if not any(step.action is Action.SET for step in steps) or _refused(steps):
        return steps
    sink, prefix, token = consumer.sink, consumer.config.sink.prefix, str(uuid4())
    try:
        await take_lead(sink, prefix, token, CLAIM_SECONDS, boottime)
    except Conflict:
        return await plan(consumer)
    try:
        chain = await read_chain(sink, prefix)
        if chain is None:
            raise Damaged(f"the record of the chain, blob {chain_name(prefix)}, was removed: restore it from a backup")
        steps = await _plan(consumer, chain)
        if _refused(steps):
            return steps
        return [await _write(consumer, chain, step) for step in steps]
    finally:
        with contextlib.suppress(StorageError):
            await sink.release_lease(leader_name(prefix), token)


async def _plan(consumer: OpenConsumer, chain: StoredRecord[ChainRecord]) -> list[AdoptStep]:
    now = await consumer.now()
    leases = (await consumer.read_leases()).values()
    held = [view.lease for view in leases if view.state(now) is LeaseState.HELD]
    return [_chain_step(consumer, chain, held), *await _lease_steps(consumer, chain, held)]


def _chain_step(consumer: OpenConsumer, chain: StoredRecord[ChainRecord], held: Sequence[Lease]) -> AdoptStep:
    own, other = consumer.config.resource, chain.record.resource
    step = AdoptStep(
        record=CHAIN,
        blob=chain_name(consumer.config.sink.prefix),
        action=Action.KEEP,
        from_=_named(other),
        to=_named(own),
        why="the chain already belongs to this EventConsumer",
    )
    if own == other:
        return step
    for lease in held:
        if own.path != other.path == consumer_of(lease.owner):
            return _held(step, lease, other.path)
    return step.model_copy(update={"action": Action.SET, "why": "hosts of this EventConsumer continue the chain"})


async def _lease_steps(
    consumer: OpenConsumer, chain: StoredRecord[ChainRecord], held: Sequence[Lease]
) -> list[AdoptStep]:
    found = await _read_lease_record(consumer)
    if found is None:
        return []  # the first host writes it
    record, wanted = found.record, _wanted(consumer, chain)
    step = AdoptStep(
        record=LEASES,
        blob=found.name,
        action=Action.KEEP,
        from_=f"chain {record.chain} of {record.resource}",
        to=f"chain {wanted.chain} of {wanted.resource}",
        why="the leases already belong to this chain",
    )
    if (record.namespace, record.hub) != (wanted.namespace, wanted.hub):
        why = f"the leases belong to Event Hub {record.hub} in {record.namespace}, EventConsumer {record.resource}"
        remedy = "remove spec.checkpointStore.prefix, or set an unused one: checkpoints of another hub cannot be used"
        return [step.model_copy(update={"action": Action.REFUSE, "why": why, "remedy": remedy})]
    if belongs(record, wanted):
        return [step]
    if held:
        return [_held(step, held[0], record.resource)]
    why = f"partitions that the chain has not begun start at the checkpoints of the files at {record.sink}"
    return [step.model_copy(update={"action": Action.SET, "why": why})]


async def _write(consumer: OpenConsumer, chain: StoredRecord[ChainRecord], step: AdoptStep) -> AdoptStep:
    if step.action is not Action.SET:
        return step
    if step.record == CHAIN:
        record = chain.record.model_copy(update={"resource": consumer.config.resource, "since": utc_now()})
        await consumer.sink.put(step.blob, _encoded(record), if_match=chain.etag)
    else:
        found = await _read_lease_record(consumer)
        if found is None:
            raise Damaged(f"the record of the leases, blob {step.blob}, was removed: run the command again")
        wanted = _wanted(consumer, chain).model_copy(update={"spelling": found.record.spelling})
        await consumer.leases.put(step.blob, _encoded(wanted), if_match=found.etag)
    return step.model_copy(update={"done": True})


def _wanted(consumer: OpenConsumer, chain: StoredRecord[ChainRecord]) -> LeaseRecord:
    # A chain exists, so the hub's creation time, which is part of a new chain's identity, is not needed.
    info = HubInfo(consumer.namespace, consumer.hub_name, chain.record.since, ())
    return expected_lease_record(consumer.config, info, chain.record.chain, consumer.sink.account)


async def _read_lease_record(consumer: OpenConsumer) -> StoredRecord[LeaseRecord] | None:
    group = consumer.config.event_hub.consumer_group
    return await read_lease_record(consumer.leases, longest_lease_store(consumer).folder, group)


def _held(step: AdoptStep, lease: Lease, other: str) -> AdoptStep:
    why = f"{lease.owner or 'a program without a name'} holds the lease of partition {lease.partition}"
    remedy = f"suspend or delete EventConsumer {other}, and stop other programs on these leases"
    return step.model_copy(update={"action": Action.REFUSE, "why": why, "remedy": remedy})


def _in_use(consumer: OpenConsumer, other: ResourceRef, step: AdoptStep) -> AdoptStep:
    owner = f"EventConsumer {other.path}" if other != consumer.config.resource else "this EventConsumer"
    why = f"a host of {owner} (uid {other.uid}) is the leading host and drains into {consumer.config.sink.prefix}"
    remedy = f"suspend or delete {owner}, wait until its pods have ended (after a crash: its lease), and run this again"
    return step.model_copy(update={"action": Action.REFUSE, "why": why, "remedy": remedy})


def _named(resource: ResourceRef) -> str:
    return f"{resource.path} (uid {resource.uid})"


def _encoded(record: WireDocument) -> bytes:
    return record.to_json(indent=2).encode()


def _refused(steps: list[AdoptStep]) -> bool:
    return any(step.action is Action.REFUSE for step in steps)


async def adopt(config: Path, output: PrintFormat, *, yes: bool) -> int:
    """`adopt`: print the plan, apply it with `--yes`; the exit code."""
    async with opened(config) as consumer:
        steps = await (carry_out(consumer) if yes else plan(consumer))
        where = f"{consumer.config.sink.container}/{consumer.config.sink.prefix}"
    report = AdoptReport(
        dry_run=not yes,
        refused=_refused(steps),
        done=any(step.done for step in steps),
        sink=where,
        steps=steps,
    )
    show(report, output, _table)
    if not steps:
        say(f"no chain of files at {where}: the first host of this EventConsumer creates it")
        return NOTHING
    if report.refused:
        say("refused, nothing was written: see WHY above")
        return REFUSED
    if report.dry_run and any(step.action is Action.SET for step in steps):
        say("nothing was written: run again with --yes to apply the plan")
    return DONE


def _table(report: AdoptReport, console: Console) -> None:
    rows = [
        (step.record, "done" if step.done else step.action.value, step.from_, step.to, _why(step))
        for step in report.steps
    ]
    console.print(table_of(("RECORD", "ACTION", "FROM", "TO", "WHY"), rows))


def _why(step: AdoptStep) -> str:
    return f"{step.why}: {step.remedy}" if step.remedy else step.why
