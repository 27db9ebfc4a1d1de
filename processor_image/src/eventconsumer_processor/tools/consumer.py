"""Opens the consumer that a command is about: its configuration, both containers, and the hub where it is asked."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.host_config import BlobContainer, HostConfig
from eventconsumer_api.identity import HubSegment, lease_prefix
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_processor import problems
from eventconsumer_processor.audit.access import read_config
from eventconsumer_processor.audit.container import AzureContainer, Container
from eventconsumer_processor.audit.leases import LeaseFacts
from eventconsumer_processor.audit.owners import LeaseReader, LeaseSubject
from eventconsumer_processor.credentials import hub_access
from eventconsumer_processor.errors import SourceError
from eventconsumer_processor.host.registration import hub_of
from eventconsumer_processor.identity.segments import check_names, list_segments
from eventconsumer_processor.source.hub import Hub, HubInfo
from eventconsumer_processor.tools.clock import storage_time
from eventconsumer_storage.async_blobs import AzureBlobStore, blob_service
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Damaged, StorageError, Unauthorized


@dataclass(frozen=True)
class Consumer:
    """An open consumer.

    Attributes:
        config: What its hosts are told.
        host: The hub's endpoint as its hosts spell it.
        hub_name: The hub.
        segments: Of the chain, the newest last; none where no host has registered yet.
        files: The container of the files, to read.
        lease_files: The container of the leases, to read.
        leases: The same, to write.
        sink: The container of the files, to write.
        now: The lease storage's own clock.
        hub: The hub, where the command asks it.
    """

    config: HostConfig
    host: str
    hub_name: str
    segments: tuple[HubSegment, ...]
    files: Container
    lease_files: Container
    leases: BlobStore
    sink: BlobStore
    now: Callable[[], Awaitable[datetime]]
    hub: Hub | None = None

    @property
    def segment(self) -> HubSegment | None:
        """The newest segment, which hosts drain into."""
        return self.segments[-1] if self.segments else None

    @property
    def namespace(self) -> str:
        """The hub's host name, in lower case and without a port."""
        return self.host.partition(":")[0].lower()

    @property
    def lease_prefix(self) -> str:
        """What the names of the leases begin with, in front of the consumer group or (AzureSdk) the hub's names."""
        leases, replay = self.config.leases, self.config.replay
        nonce = replay.nonce if replay else ""
        return lease_prefix(leases.location.prefix, leases.layout, self.namespace, self.hub_name, nonce)

    @property
    def replaced(self) -> bool:
        """Whether a handler replaces the files, so that checkpoints alone say how far events are processed."""
        processing = self.config.processing
        return processing.handler is not None and processing.handler_mode is HandlerMode.REPLACE

    def reader(self) -> LeaseReader:
        """Reads the leases and changes nothing."""
        leases, group = self.config.leases, self.config.event_hub.consumer_group
        subject = LeaseSubject(self.lease_files, self.lease_prefix, group, leases.layout, leases.shared)
        return LeaseReader(subject, self.namespace, self.hub_name)

    async def read_leases(self) -> dict[str, LeaseFacts]:
        """All leases by partition.

        Raises:
            StorageError: A request failed.
        """
        return await self.reader().read()

    async def describe(self) -> tuple[Hub, HubInfo]:
        """The hub and its facts.

        Raises:
            Blocked: The files are of a hub with other names.
            SourceError: It does not answer.
            ValueError: The consumer was opened without it.
        """
        if self.hub is None:
            raise ValueError("the consumer was opened without its hub")
        info = await self.hub.describe()
        if self.segment is not None:
            check_names(self.segment, info)
        return self.hub, info


@asynccontextmanager
async def opened(config_file: Path, *, hub: bool = False) -> AsyncIterator[Consumer]:
    """Open the consumer of a host's configuration; everything is closed at the end.

    Args:
        config_file: The HostConfig.
        hub: Whether the hub is to be asked too.

    Raises:
        EventConsumerError: Something is missing or wrong; the message says what, and holds no secret.
    """
    config = read_config(config_file)
    access = hub_access(config.event_hub, config.allow_insecure_endpoints, config.endpoint_suffixes)
    async with AsyncExitStack() as stack:
        sink = await _service(stack, config, problems.SINK, config.sink)
        location = config.leases.location
        leases = await _service(stack, config, problems.LEASES, location)
        files = AzureBlobStore(sink, config.sink.container, _unseen)
        asked = hub_of(config) if hub else None
        if asked is not None:
            stack.push_async_callback(asked.close)
        with _remedies(config):
            yield Consumer(
                config=config,
                host=access.host,
                hub_name=access.name,
                segments=tuple(await list_segments(files, config.sink.prefix)),
                files=AzureContainer(sink, config.sink.container),
                lease_files=AzureContainer(leases, location.container),
                leases=AzureBlobStore(leases, location.container, _unseen),
                sink=files,
                now=partial(storage_time, leases, location.container),
                hub=asked,
            )


@contextmanager
def _remedies(config: HostConfig) -> Iterator[None]:
    """Say what to do about requests that failed."""
    where = f"containers {config.sink.container} (sink) and {config.leases.location.container} (leases)"
    try:
        yield
    except SourceError as error:
        raise EventConsumerError(problems.hub_problem(config.event_hub, error).message) from error
    except Damaged:
        raise
    except Unauthorized as error:
        raise EventConsumerError(
            f"storage refuses a credential for {where}: give it the role Storage Blob Data Contributor, or renew "
            f"its key ({error})"
        ) from error
    except StorageError as error:
        raise EventConsumerError(
            f"storage does not answer as it should for {where}: eventconsumer check says what is wrong ({error})"
        ) from error


async def _service(stack: AsyncExitStack, config: HostConfig, field: str, location: BlobContainer) -> BlobServiceClient:
    service = blob_service(location, field, config.allow_insecure_endpoints, config.endpoint_suffixes)
    credential: Any = service.credential
    if hasattr(credential, "get_token"):
        stack.push_async_callback(credential.close)
    return await stack.enter_async_context(service)


def _unseen(_: str, __: str) -> None:
    """Requests of a command are in no metric."""
