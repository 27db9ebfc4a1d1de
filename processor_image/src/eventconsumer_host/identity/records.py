"""Owners of chains and leases, by records in storage (`eventconsumer_api.wire.identity`), which are written first.

A chain belongs to the resource that its record names. Another resource takes it over only while it holds the lease of
`<prefix>/_leader`, which a host of the first resource holds as long as its hosts run. A folder of leases belongs to one
hub and one chain. A folder without a record is one of EventProcessorHost or an SDK; it is adopted if no program holds
its leases (unless they are shared) and its checkpoints exist in the hub.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import uuid4

import structlog
from pydantic import ValidationError

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.host_config import HostConfig, ResourceRef
from eventconsumer_api.wire.identity import (
    LEASE_RECORD,
    RECORD_MAX_BYTES,
    ChainRecord,
    LeaseRecord,
    SegmentRecord,
    chain_identity,
    chain_name,
    consumer_of,
    lease_record_name,
    lease_record_names,
)
from eventconsumer_host import problems
from eventconsumer_host.identity.segments import is_superseded
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.lease.store import LeaseStore
from eventconsumer_host.source import offsets
from eventconsumer_host.source.byoffset import number_at
from eventconsumer_host.source.first import first_from
from eventconsumer_host.source.hub import Hub, HubInfo
from eventconsumer_storage.blobs import Blob, BlobStore
from eventconsumer_storage.errors import Conflict, Damaged, NotFound, StorageError

LOOK_SECONDS = 5.0  # maximum wait for an event
LEAD_SECONDS = 60  # maximum lease of the lead: the chain of crashed hosts cannot be taken over before
MOVED_SECONDS = 300.0  # interval of checks that the chain still belongs to the host's resource, in this segment
WATCH_SECONDS = 2.0  # the same, while there is a sign of a change
CLAIM_SECONDS = 15  # lease of the lead during a takeover

R = TypeVar("R", bound=WireDocument)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Times:
    """Clocks: the wall clock, and seconds that continue during suspend."""

    now: Callable[[], datetime]
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases of a consumer, and their container."""

    store: LeaseStore
    blobs: BlobStore


def leader_name(prefix: str) -> str:
    """Name of the blob whose lease is the lead."""
    return f"{prefix}/_leader"


async def take_lead(sink: BlobStore, prefix: str, token: str, seconds: int, clock: Callable[[], float]) -> float:
    """Acquire the lead of a chain; returns the time by `clock` at which the request was sent.

    Raises:
        Conflict: Another host leads.
        StorageError: A request failed.
    """
    name, since = leader_name(prefix), clock()
    try:
        await sink.acquire_lease(name, token, seconds)
    except NotFound:  # no host has led before
        with contextlib.suppress(Conflict):
            await sink.put(name, b"", if_absent=True)
        since = clock()
        await sink.acquire_lease(name, token, seconds)
    return since


@dataclass(frozen=True, slots=True)
class StoredRecord(Generic[R]):
    """The record of a chain or of leases, and the ETag and the name of its blob."""

    record: R
    etag: str
    name: str


async def read_chain(sink: BlobStore, prefix: str) -> StoredRecord[ChainRecord] | None:
    """The record of a chain; None if there is none yet.

    Raises:
        Damaged: It cannot be parsed.
        StorageError: The request failed.
    """
    name = chain_name(prefix)
    blob = await sink.read(name, RECORD_MAX_BYTES)
    return _stored(ChainRecord, name, blob)


async def read_lease_record(leases: BlobStore, folder: str, group: str) -> StoredRecord[LeaseRecord] | None:
    """The record of a folder of leases; None if there is none; raises as `read_chain`."""
    for name in lease_record_names(folder, group):
        try:
            blob = await leases.read(name, RECORD_MAX_BYTES)
        except NotFound:  # of the container
            return None
        if blob is not None:
            return _stored(LeaseRecord, name, blob)
    return None


async def other_spellings(leases: BlobStore, folder: str, group: str) -> list[str]:
    """Names of consumer groups beside `group` that differ only in case, and have a folder of leases or a record.

    Hosts write a record only where the spelling is theirs, so the record in lower case names no folder.
    """
    start = folder.rstrip("/")[: -len(group)]
    found: set[str] = set()
    with contextlib.suppress(NotFound):  # of the container
        for first in sorted({group[0].lower(), group[0].upper()}):
            names = [name.removeprefix(start) for name in await leases.level(start + first)]
            found |= {name.removesuffix("/") for name in names if name.endswith("/")}
            found |= {name.removesuffix(LEASE_RECORD) for name in names if name.endswith(LEASE_RECORD)}
    return sorted(name for name in found if name != group and name.lower() == group.lower())


async def claim_chain(config: HostConfig, segment_id: str, leases: LeaseStore, sink: BlobStore, times: Times) -> str:
    """Verify that this resource drains into its chain; returns the identity of the chain.

    Args:
        config: Names the resource and the folder.
        segment_id: Id of the first segment, for a new chain.
        leases: The leases of this consumer: a resource whose hosts hold some of them is alive.
        sink: The container of the files.
        times: Clocks.

    Raises:
        Blocked: Another resource drains into it.
        StorageError: A request failed, or the record cannot be parsed.
    """
    prefix, resource = config.sink.prefix, config.resource
    found = await read_chain(sink, prefix)
    if found is None:
        identity = chain_identity(sink.account, config.sink.container, prefix, segment_id)
        fresh = ChainRecord(chain=identity, resource=resource, since=times.now())
        with contextlib.suppress(Conflict):
            await sink.put(chain_name(prefix), _encoded(fresh), if_absent=True)
            return identity
        found = await read_chain(sink, prefix)
        if found is None:
            raise Damaged(f"the record of the chain, blob {chain_name(prefix)}, was removed at once")
    if found.record.resource.uid != resource.uid:
        await _take_over(resource, prefix, leases, sink, times)
    return found.record.chain


async def is_displaced(sink: BlobStore, prefix: str, resource: ResourceRef) -> bool:
    """Whether another resource has taken the chain over."""
    found = await read_chain(sink, prefix)
    return found is not None and found.record.resource.uid != resource.uid


async def until_moved(
    sink: BlobStore,
    config: HostConfig,
    segment: SegmentRecord,
    *,
    restore: Callable[[], Awaitable[None]],
    in_doubt: Callable[[], bool],
    rarity: Callable[[], float],
    clock: Callable[[], float],
) -> None:
    """Return when another resource has taken the chain over, or a newer segment has begun; then register again.

    Until then, restore the record of the leases whenever it is missing.

    Args:
        sink: The container of the files.
        config: The consumer.
        segment: The segment of its hosts.
        restore: Writes the record of the leases if it is missing; may raise StorageError.
        in_doubt: Whether there is a sign of a change; otherwise checks are rare.
        rarity: Factor of the time between rare checks.
        clock: Seconds that continue during suspend.
    """
    looked = clock()
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        if not in_doubt() and clock() - looked < MOVED_SECONDS * rarity():
            continue
        looked = clock()
        with contextlib.suppress(StorageError):
            if await is_displaced(sink, config.sink.prefix, config.resource):
                log.warning("another EventConsumer has taken the chain over: this host stops reading")
                return
            if await is_superseded(sink, config.sink.prefix, segment):
                log.info("the chain continues in a new segment: registering again", before=segment.number)
                return
            await restore()


async def _take_over(resource: ResourceRef, prefix: str, leases: LeaseStore, sink: BlobStore, times: Times) -> None:
    """Write this resource into the record, if no host of another resource leads.

    Raises:
        Blocked: A host of another resource leads.
    """
    token, in_use = str(uuid4()), True
    with contextlib.suppress(Conflict):
        await take_lead(sink, prefix, token, CLAIM_SECONDS, times.clock)
        in_use = False
    leads = not in_use
    try:
        found = await read_chain(sink, prefix)
        if found is None or found.record.resource.uid == resource.uid:  # another host of this resource was first
            return
        if in_use or found.record.resource.path in others(await leases.existing(), resource):
            problem = problems.chain_in_use(prefix, found.record.resource, resource)
            raise Blocked(problem.field, Reason(problem.reason), problem.message)
        record = found.record.model_copy(update={"resource": resource, "since": times.now()})
        await sink.put(chain_name(prefix), _encoded(record), if_match=found.etag)
        log.info("took over the chain", before=found.record.resource.path, chain=record.chain)
    finally:
        if leads:
            with contextlib.suppress(StorageError):
                await sink.release_lease(leader_name(prefix), token)


async def claim_leases(
    config: HostConfig, hub: Hub, info: HubInfo, *, chain: str, leases: Leases, sink: BlobStore, times: Times
) -> None:
    """Verify that the folder of the leases belongs to this hub and this chain.

    Args:
        config: The consumer.
        hub: Its hub, for leases without a record.
        info: The hub's names and partitions.
        chain: Identity of the chain of files.
        leases: The leases, and their container.
        sink: The container of the files.
        times: Clocks.

    Raises:
        Blocked: It belongs to another hub or to another chain, or there is a folder that spells the group otherwise.
        LeasesAmbiguous: There are leases under several spellings of the names.
        StorageError: A request failed, or the record cannot be parsed.
        SourceError: The hub did not answer.
    """
    folder, container = leases.store.folder.rstrip("/"), config.leases.location.container
    group = config.event_hub.consumer_group
    found = await read_lease_record(leases.blobs, folder, group)
    spelling = await leases.store.spelling()
    wanted = lease_record(config, info, chain, sink.account, times.now(), spelling=spelling)
    if found is None:
        if with_case(config) and (others := await other_spellings(leases.blobs, folder, group)):
            problem = problems.group_in_another_case(container, folder, group, others)
            raise Blocked(problem.field, Reason(problem.reason), problem.message)
        why = await misfit(config, await leases.store.existing(), hub, info)
        found = await read_lease_record(leases.blobs, folder, group) if why else None  # another host of ours was first
        if why and found is None:
            problem = problems.leases_do_not_fit(container, folder, why)
            raise Blocked(problem.field, Reason(problem.reason), problem.message)
    if found is None:
        with contextlib.suppress(Conflict):
            await leases.blobs.put(lease_record_name(folder, group), _encoded(wanted), if_absent=True)
            return
        found = await read_lease_record(leases.blobs, folder, group)
    if found is not None and not belongs(found.record, wanted):
        problem = problems.leases_in_use(container, folder, found.record, wanted)
        raise Blocked(problem.field, Reason(problem.reason), problem.message)
    if found is not None and with_case(config) and found.record.consumer_group != group:
        problem = problems.group_in_another_case(container, folder, group, [found.record.consumer_group])
        raise Blocked(problem.field, Reason(problem.reason), problem.message)


def with_case(config: HostConfig) -> bool:
    """PURE: whether the folder of the leases spells the consumer group as the resource does."""
    return config.leases.layout is LeaseLayout.EVENT_PROCESSOR_HOST


async def restore_lease_record(leases: BlobStore, folder: str, record: LeaseRecord) -> None:
    """Write the record of a folder of leases if it is missing, because the folder was deleted while hosts ran.

    Raises:
        StorageError: A request failed.
    """
    names = lease_record_names(folder, record.consumer_group)
    with contextlib.suppress(Conflict, NotFound):  # NotFound: of the container, which the first host creates
        for name in names:
            if await leases.read(name, RECORD_MAX_BYTES) is not None:
                return
        await leases.put(names[-1], _encoded(record), if_absent=True)


def lease_record(
    config: HostConfig, info: HubInfo, chain: str, account: str, now: datetime, *, spelling: str
) -> LeaseRecord:
    """PURE: the record that a host of this configuration expects.

    Args:
        config: The consumer.
        info: Its hub.
        chain: Identity of the chain.
        account: Name of the storage account of the files.
        now: Wall clock.
        spelling: See `LeaseRecord.spelling`. A record that is only compared needs none.
    """
    return LeaseRecord(
        namespace=info.namespace,
        hub=info.name.lower(),
        consumer_group=config.event_hub.consumer_group,
        chain=chain,
        sink=f"{account}/{config.sink.container}/{config.sink.prefix}",
        resource=config.resource.path,
        since=now,
        spelling=spelling,
    )


def belongs(found: LeaseRecord, wanted: LeaseRecord) -> bool:
    """PURE: whether a record is of the same hub, consumer group and chain."""
    return (found.namespace, found.hub, found.consumer_group.lower(), found.chain) == (
        wanted.namespace,
        wanted.hub,
        wanted.consumer_group.lower(),
        wanted.chain,
    )


async def misfit(config: HostConfig, found: Sequence[Lease], hub: Hub, info: HubInfo, *, read: bool = True) -> str:
    """Why leases without a record do not belong to this hub, or cannot be adopted now; empty: they can.

    A checkpoint of another hub may be inside the range of sequence numbers of this one. So the event of a checkpoint is
    read, if the hub still has it and no other reader can exist, and its offset is compared.

    Args:
        config: The consumer. Its own hosts hold leases without a record if the container was deleted meanwhile.
        found: The leases of the folder.
        hub: The hub.
        info: Its partitions.
        read: Whether events may be read: a link disconnects a reader that holds no lease.

    Raises:
        SourceError: The hub did not answer.
    """
    for lease in found:
        if lease.partition not in info.partition_ids:
            return f"there is a lease of partition {lease.partition}, but the hub does not have this partition"
    for lease in found:
        own = consumer_of(lease.owner) == config.resource.path
        if lease.leased and not own and not config.leases.shared:
            return (
                f"{lease.owner or 'an unknown program'} holds the lease of partition {lease.partition}: stop it, "
                "or set spec.checkpointStore.shared: true if it reads the same hub"
            )
    whose_life_shows = config.leases.layout is LeaseLayout.EVENT_PROCESSOR_HOST  # otherwise only over time
    for lease in found:
        if lease.checkpoint is None:
            continue
        idle, reached = not lease.owner or (whose_life_shows and not lease.leased), lease.checkpoint
        if reached.needs_offset(config.leases.layout):
            if read and idle and await number_at(hub, lease.partition, reached.offset, lease.epoch) is None:
                return problems.offset_not_found(config.resource, lease.partition, reached.offset).message
            continue
        if reached.sequence_number < 0:
            continue
        end = await hub.partition(lease.partition)
        if reached.sequence_number > end.last:
            return (
                f"the checkpoint of partition {lease.partition} is sequence number {reached.sequence_number}, but the "
                f"hub's last event is {end.last}"
            )
        if read and idle and reached.offset and reached.sequence_number >= end.earliest:
            offset = await _offset_at(hub, lease, reached.sequence_number)
            if offsets.differ(offset, reached.offset):
                return (
                    f"the checkpoint of partition {lease.partition} names offset {reached.offset} for sequence number "
                    f"{reached.sequence_number}, but the hub's event with that number has offset {offset}"
                )
    return ""


async def _offset_at(hub: Hub, lease: Lease, number: int) -> str:
    """Offset of the event with a sequence number; empty if the hub does not deliver it."""
    source = await hub.open(lease.partition, number - 1, lease.epoch, 1)
    try:
        found = await first_from(source, number, LOOK_SECONDS)
        return found.last_offset if found is not None and found.first == number else ""
    finally:
        await source.close()


def others(found: Sequence[Lease], resource: ResourceRef) -> set[str]:
    """PURE: other EventConsumers whose hosts hold some of these leases now."""
    return {consumer_of(lease.owner) for lease in found if lease.leased} - {"", resource.path}


def _encoded(record: WireDocument) -> bytes:
    return record.to_json(indent=2).encode()


def _stored(model: type[R], name: str, blob: Blob | None) -> StoredRecord[R] | None:
    if blob is None:
        return None
    try:
        return StoredRecord(model.model_validate_json(blob.data), blob.info.etag, name)
    except ValidationError:
        raise Damaged(f"cannot parse the record {name}: restore it from a backup") from None
