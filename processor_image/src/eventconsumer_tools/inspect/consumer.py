"""Opens the consumer of a command: its configuration, both containers, and the hub if the command needs it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import SegmentRecord, lease_prefix
from eventconsumer_host import problems
from eventconsumer_host.configuration import read_config
from eventconsumer_host.credentials import hub_access
from eventconsumer_host.errors import SourceError
from eventconsumer_host.host.registration import hub_of
from eventconsumer_host.identity.segments import check_names, list_segments
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.source.hub import Hub, HubInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.causes import cause_of
from eventconsumer_storage.errors import Damaged, StorageError
from eventconsumer_tools.inspect.leases import LeaseView, read_leases
from eventconsumer_tools.inspect.storage import Walk, blob_store, opened_service, storage_time, walk


@dataclass(frozen=True)
class OpenConsumer:
    """An open consumer.

    Attributes:
        config: The configuration of its hosts.
        host: The hub's endpoint as its hosts spell it.
        hub_name: The hub.
        segments: Of the chain, the newest last; empty: no host has registered yet.
        sink: The container of the files.
        leases: The container of the leases.
        walk: Lists the container of the files.
        now: The lease storage's own clock.
        hub: The hub, if the command needs it.
    """

    config: HostConfig
    host: str
    hub_name: str
    segments: tuple[SegmentRecord, ...]
    sink: BlobStore
    leases: BlobStore
    walk: Walk
    now: Callable[[], Awaitable[datetime]]
    hub: Hub | None = None

    @property
    def segment(self) -> SegmentRecord | None:
        """The newest segment, which hosts drain into."""
        return self.segments[-1] if self.segments else None

    @property
    def namespace(self) -> str:
        """The hub's host name, in lower case and without a port."""
        return self.host.partition(":")[0].lower()

    @property
    def lease_prefix(self) -> str:
        """The prefix of lease names, before the consumer group or (AzureSdk) the hub's names."""
        leases, replay = self.config.leases, self.config.replay
        name = replay.name if replay else ""
        return lease_prefix(leases.location.prefix, leases.layout, self.namespace, self.hub_name, name)

    @property
    def replaced(self) -> bool:
        """Whether a handler replaces the files, so that only checkpoints record the processed events."""
        processing = self.config.processing
        return processing.handler is not None and processing.handler_mode is HandlerMode.REPLACE

    @property
    def lease_names(self) -> Names:
        """Names of the lease blobs; both layouts use the prefix and the consumer group."""
        return Names(self.lease_prefix, self.host, self.hub_name, self.config.event_hub.consumer_group)

    async def read_leases(self) -> dict[str, LeaseView]:
        """All leases by partition.

        Raises:
            StorageError: A request failed.
        """
        return await read_leases(self.leases, self.config.leases.layout, self.lease_names)

    async def describe(self) -> tuple[Hub, HubInfo]:
        """The hub and its properties.

        Raises:
            Blocked: The files are of a hub with other names.
            SourceError: It does not respond.
            ValueError: The consumer was opened without it.
        """
        if self.hub is None:
            raise ValueError("the consumer was opened without its hub")
        info = await self.hub.describe()
        if self.segment is not None:
            check_names(self.segment, info)
        return self.hub, info


@asynccontextmanager
async def opened(config_file: Path, *, hub: bool = False) -> AsyncIterator[OpenConsumer]:
    """Open the consumer of a host's configuration; everything is closed at the end.

    Args:
        config_file: The HostConfig.
        hub: Whether to open the hub too.

    Raises:
        EventConsumerError: The configuration or a credential is missing or wrong, or a request failed.
    """
    config = read_config(config_file)
    access = hub_access(config.event_hub, config.allow_insecure_endpoints, config.hub_suffixes)
    async with AsyncExitStack() as stack:
        sink = await stack.enter_async_context(opened_service(config, problems.SINK, config.sink))
        location = config.leases.location
        leases = await stack.enter_async_context(opened_service(config, problems.LEASES, location))
        files = blob_store(sink, config.sink.container)
        asked = hub_of(config) if hub else None
        if asked is not None:
            stack.push_async_callback(asked.close)
        with _remedies(config):
            yield OpenConsumer(
                config=config,
                host=access.host,
                hub_name=access.name,
                segments=tuple(await list_segments(files, config.sink.prefix)),
                sink=files,
                leases=blob_store(leases, location.container),
                walk=partial(walk, sink, config.sink.container),
                now=partial(storage_time, leases, location.container),
                hub=asked,
            )


@contextmanager
def _remedies(config: HostConfig) -> Iterator[None]:
    """Add the remedy to errors of failed requests."""
    where = f"containers {config.sink.container} (sink) and {config.leases.location.container} (leases)"
    try:
        yield
    except SourceError as error:
        raise EventConsumerError(problems.hub_problem(config.event_hub, error).message) from error
    except Damaged:
        raise
    except StorageError as error:
        if cause := cause_of(error):
            raise EventConsumerError(
                f"storage refuses a request for {where} because {cause.text}: {cause.remedy} ({error})"
            ) from error
        raise EventConsumerError(
            f"a request to storage failed for {where}: run eventconsumer check to find the cause ({error})"
        ) from error
