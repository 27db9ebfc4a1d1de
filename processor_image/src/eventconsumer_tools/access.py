"""Opens the consumer to audit: from a host's own configuration, or from the options of the command.

A host pod has the configuration and the mounted credentials. Elsewhere, the containers are opened with a connection
string in a file, or with the signed-in identity (Azure CLI, environment, managed identity).
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_api.spec.endpoints import account_name
from eventconsumer_api.v1alpha1 import HandlerMode, LeaseLayout
from eventconsumer_api.wire.host_config import BlobLocation, HubConfig
from eventconsumer_audit.container import AzureContainer
from eventconsumer_audit.identity import Outputs
from eventconsumer_audit.owners import LeaseSubject
from eventconsumer_audit.read import Subject
from eventconsumer_host.configuration import credential_in, read_config
from eventconsumer_host.credentials import HubAccess, hub_access
from eventconsumer_host.errors import CommandError
from eventconsumer_host.source.hub import Hub
from eventconsumer_storage.async_blobs import AzureBlobStore, blob_service, client_options
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.proxy import use_proxy


@dataclass(frozen=True)
class Options:
    """Options of the command other than `--config`."""

    connection_string_file: Path | None = None
    account_url: str | None = None
    container: str | None = None
    prefix: str | None = None
    lease_container: str | None = None
    lease_prefix: str | None = None
    lease_layout: LeaseLayout = LeaseLayout.EVENT_PROCESSOR_HOST
    consumer_group: str = "$Default"
    shared_leases: bool = False
    writes_files: bool = True
    hub_connection_string_file: Path | None = None
    storage_api_version: str | None = None

    @property
    def given(self) -> bool:
        """Whether the options name the storage, so that no configuration is needed."""
        return self.connection_string_file is not None or self.account_url is not None


@dataclass(frozen=True)
class Opened:
    """An open consumer."""

    subject: Subject
    store: BlobStore  # of the files, with write access
    batches: bool  # whether Spark is enabled, as far as is known


@asynccontextmanager
async def opened(config_file: Path, options: Options, *, hub: bool) -> AsyncIterator[Opened]:
    """Open the consumer; everything is closed at the end.

    Args:
        config_file: A HostConfig; used if the options do not name the storage.
        options: Options of the command.
        hub: Whether to open the hub too.

    Raises:
        EventConsumerError: The configuration, a credential or an option is missing or wrong.
    """
    async with AsyncExitStack() as stack:
        yield await (_by_options(stack, options, hub) if options.given else _by_config(stack, config_file, hub))


async def _by_config(stack: AsyncExitStack, path: Path, hub: bool) -> Opened:
    config = read_config(path, ", or name the storage with --connection-string-file or --account-url")
    insecure, suffixes = config.allow_insecure_endpoints, config.storage_suffixes
    use_proxy(config.proxy)
    service = await _enter(stack, blob_service(config.sink, "spec.sink", insecure, suffixes))
    lease_location = config.leases.location
    lease_service = await _enter(stack, blob_service(lease_location, "spec.checkpointStore", insecure, suffixes))
    subject = Subject(
        AzureContainer(service, config.sink.container),
        config.sink.prefix,
        LeaseSubject(
            AzureContainer(lease_service, lease_location.container),
            lease_location.prefix,
            config.event_hub.consumer_group,
            config.leases.layout,
            config.leases.shared,
            config.replay.nonce if config.replay else "",
        ),
        await _hub(stack, hub_access(config.event_hub, insecure, config.hub_suffixes)) if hub else None,
        resource=config.resource,
        outputs=_outputs(service),
        writes_files=config.processing.handler is None or config.processing.handler_mode is not HandlerMode.REPLACE,
    )
    return Opened(subject, _store(service, config.sink.container), config.batches is not None)


async def _by_options(stack: AsyncExitStack, options: Options, hub: bool) -> Opened:
    if not options.container or options.prefix is None:
        raise CommandError("--container and --prefix are required too: specify the location of the files")
    service = await _enter(stack, _service(options))
    files = AzureContainer(service, options.container)
    leases = None
    if options.lease_container:
        container = AzureContainer(service, options.lease_container)
        leases = LeaseSubject(
            container, options.lease_prefix, options.consumer_group, options.lease_layout, options.shared_leases
        )
    source = None
    if hub:
        if options.hub_connection_string_file is None:
            raise CommandError("--hub needs --hub-connection-string-file: a connection string with EntityPath")
        credential = credential_in(options.hub_connection_string_file, "--hub-connection-string-file")
        named = HubConfig(consumer_group=options.consumer_group, credential=credential)
        # The user who runs this command chose the endpoints.
        source = await _hub(stack, hub_access(named, True, ()))
    prefix = options.prefix.rstrip("/")
    subject = Subject(files, prefix, leases, source, outputs=_outputs(service), writes_files=options.writes_files)
    return Opened(subject, _store(service, options.container), batches=False)


def _service(options: Options) -> BlobServiceClient:
    if options.connection_string_file is not None and options.account_url is not None:
        raise CommandError("use --connection-string-file or --account-url, not both")
    if options.account_url is not None:
        if not options.account_url.startswith("https://"):
            raise CommandError("--account-url must begin with https://: a token is sent over TLS only")
        from azure.identity.aio import DefaultAzureCredential  # the import takes half a second

        return BlobServiceClient(
            options.account_url,
            credential=DefaultAzureCredential(),
            api_version=options.storage_api_version,
            **client_options(),
        )
    path = options.connection_string_file
    if path is None:
        raise CommandError("specify the storage with --connection-string-file or --account-url")
    if not path.is_file():
        raise CommandError(f"cannot read the connection string: file {path} does not exist")
    location = BlobLocation(
        container="",
        prefix="",
        credential=credential_in(path, "--connection-string-file"),
        storage_api_version=options.storage_api_version,
    )
    return blob_service(location, "--connection-string-file", True, ())


async def _hub(stack: AsyncExitStack, access: HubAccess) -> Hub:
    from eventconsumer_host.source.sdk import SdkHub  # a slow import too

    hub = SdkHub(access)
    stack.push_async_callback(hub.close)
    return hub


def _outputs(service: BlobServiceClient) -> Outputs:
    return Outputs(account_name(service.primary_endpoint), lambda container: AzureContainer(service, container))


def _store(service: BlobServiceClient, container: str) -> BlobStore:
    return AzureBlobStore(service, container, lambda _, __: None)


async def _enter(stack: AsyncExitStack, service: BlobServiceClient) -> BlobServiceClient:
    credential: Any = service.credential
    if hasattr(credential, "get_token"):
        stack.push_async_callback(credential.close)
    return await stack.enter_async_context(service)
