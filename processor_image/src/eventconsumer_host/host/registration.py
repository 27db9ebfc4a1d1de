"""Registration: connect to the hub and both containers, load the handler, and claim the chain and the leases.

All parts are tried concurrently and all problems are collected, so that no problem hides another. The newest segment of
the chain (`identity.segments`) defines the folder of the files. The pump verifies that the hub still has the events in
the files: it reads the last one again when it opens a partition.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import TypeVar

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import ClientKind
from eventconsumer_api.wire.host_config import BlobContainer, HostConfig, ReplayConfig
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host import compiled, problems
from eventconsumer_host.amqp.hub import AmqpHub, linger_seconds
from eventconsumer_host.body.record import NO_COLUMNS, Entered, enter
from eventconsumer_host.credentials import hub_access
from eventconsumer_host.errors import HubNotFound
from eventconsumer_host.handler.loading import Factory, load
from eventconsumer_host.host.replay import BoundedHub, bounded_hub
from eventconsumer_host.identity.records import Leases, Times, claim_chain, claim_leases
from eventconsumer_host.identity.segments import current
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.partition.memory import Memory
from eventconsumer_host.sink.slots import utc_now
from eventconsumer_host.source.budget import Budget
from eventconsumer_host.source.hub import Hub, HubInfo
from eventconsumer_storage.async_blobs import AzureBlobStore, Observer, blob_service
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Unavailable
from eventconsumer_storage.lease_time import boottime
from eventconsumer_storage.proxy import use_proxy

T = TypeVar("T")
REACH_SECONDS = 10.0  # a server that does not respond must appear in /status soon
TIMES = Times(utc_now, boottime)


@dataclass(frozen=True)
class Registration:
    """The connections and facts of a registered host."""

    hub: Hub
    info: HubInfo  # properties, with the creation time that the newest segment records
    leases: BlobStore
    sink: BlobStore
    memory: Memory  # for events, including events that wait on links
    chain: str = ""  # identity of the chain that the files belong to
    segments: tuple[SegmentRecord, ...] = ()  # of the chain; the newest is last
    handler: Factory | None = None  # None: no handler is configured
    replay: BoundedHub | None = None  # the hub of a replay; None: no replay
    bodies: Entered = NO_COLUMNS  # the columns of bodies in the files

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(self.hub.close(), self.leases.close(), self.sink.close())


async def register(config: HostConfig, observe: Observer, reader: str = "") -> Registration | list[Problem]:
    """Try to register once; returns the registration, or all problems found. For `reader` see `hub_of`."""
    found: list[Problem] = []
    memory = Memory(config.processing.buffer_bytes)

    async def attempt(part: str, action: Awaitable[T]) -> T | None:
        try:
            return await action
        except EventConsumerError as error:
            found.append(problems.of(config, part, error))
            return None

    hub, leases, sink, handler = await asyncio.gather(
        attempt(problems.HUB, _reach_hub(config, memory, reader)),
        attempt(problems.LEASES, _reach_container(config, problems.LEASES, config.leases.location, observe)),
        attempt(problems.SINK, _reach_container(config, problems.SINK, config.sink, observe)),
        attempt(problems.HANDLER, _load_handler(config.processing.handler)),
    )
    if hub and leases and sink:
        reached = Registration(hub[0], hub[1], leases, sink, memory, handler=handler)
        registration = await attempt(problems.SINK, _find_segments(config, reached))
        if registration and not found:
            registration = await attempt(problems.SINK, _claim_chain(config, registration))
        if registration and not found:
            await attempt(problems.LEASES, _claim_leases(config, registration))
        if registration and config.replay and not found:
            registration = await attempt(problems.HUB, _bounded(registration, config.replay, config.sink.prefix))
        if registration and not found:
            registration = await attempt(problems.SINK, _enter_columns(config, registration))
        if registration and not found:
            return registration
    await asyncio.gather(*(part.close() for part in (hub and hub[0], leases, sink) if part))
    return found


async def _find_segments(config: HostConfig, found: Registration) -> Registration:
    segments = tuple(await current(found.sink, config.sink.prefix, found.info, TIMES.now()))
    return replace(found, segments=segments, info=replace(found.info, created_at=segments[-1].hub.created_at))


async def _claim_chain(config: HostConfig, found: Registration) -> Registration:
    store = lease_store(config, found.info, found.leases, boottime)
    return replace(found, chain=await claim_chain(config, found.segments[0].segment_id, store, found.sink, TIMES))


async def _claim_leases(config: HostConfig, found: Registration) -> None:
    leases = Leases(lease_store(config, found.info, found.leases, boottime), found.leases)
    await claim_leases(config, found.hub, found.info, chain=found.chain, leases=leases, sink=found.sink, times=TIMES)


async def _bounded(found: Registration, config: ReplayConfig, prefix: str) -> Registration:
    hub = await bounded_hub(found.hub, found.info, config, found.sink, prefix)
    return replace(found, hub=hub, info=hub.narrowed(found.info), replay=hub)


async def _enter_columns(config: HostConfig, found: Registration) -> Registration:
    columns = config.body.parsed() if config.body else ()
    return replace(found, bodies=await enter(found.sink, config.sink.prefix, columns))


async def _load_handler(name: str | None) -> Factory | None:
    return await asyncio.to_thread(load, name) if name else None


def hub_of(config: HostConfig, memory: Memory | None = None, reader: str = "") -> Hub:
    """The hub, through the receiver that the resource selects; sends no request.

    Args:
        config: The consumer.
        memory: Limits the bytes that wait on links.
        reader: Name of the readers in texts of the service; empty: none.

    Raises:
        Blocked: The credential cannot be used.
    """
    use_proxy(config.proxy)
    access = hub_access(config.event_hub, config.allow_insecure_endpoints, config.hub_suffixes)
    processing = config.processing
    runtime_metrics = processing.runtime_metrics and processing.handler is not None  # only a handler uses them
    if processing.client is ClientKind.AZURE_SDK:
        from eventconsumer_host.source.sdk import SdkHub  # with it comes the SDK, which no other source needs

        return SdkHub(access, runtime_metrics=runtime_metrics, reader=reader)
    linger = linger_seconds(config.roll, processing)
    budget = Budget(lambda: memory.for_waiting) if memory else None
    return AmqpHub(access, linger=linger, runtime_metrics=runtime_metrics, budget=budget, reader=reader)


def receiver_of(config: HostConfig) -> str:
    """Name of the receiver and its decoder, for the log."""
    return "sdk" if config.processing.client is ClientKind.AZURE_SDK else f"amqp, {compiled.kind()} decoder"


async def _reach_hub(config: HostConfig, memory: Memory, reader: str) -> tuple[Hub, HubInfo]:
    hub = hub_of(config, memory, reader)
    try:
        info = await hub.describe()
        try:
            await hub.check_consumer_group(info.partition_ids[0])
        except HubNotFound as error:
            problem = problems.hub_problem(config.event_hub, error, group=True)
            raise Blocked(problem.field, Reason(problem.reason), problem.message) from error
    except EventConsumerError:
        await hub.close()
        raise
    return hub, info


async def _reach_container(config: HostConfig, part: str, location: BlobContainer, observe: Observer) -> BlobStore:
    use_proxy(config.proxy)
    service = blob_service(location, part, config.allow_insecure_endpoints, config.storage_suffixes)
    store = AzureBlobStore(service, location.container, observe)
    try:
        async with asyncio.timeout(REACH_SECONDS):
            await store.ensure_container()
    except TimeoutError:
        await store.close()
        raise Unavailable(f"no answer within {REACH_SECONDS:.0f} s") from None
    except EventConsumerError:
        await store.close()
        raise
    return store
