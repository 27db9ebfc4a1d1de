"""HostConfig: the resolved configuration that the operator writes into a ConfigMap and the host parses.

Resolved means: names are computed, credentials are file paths. It contains no secret. The hash of its JSON is in the
pod template, so only a change that affects hosts restarts pods.
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import AwareDatetime, ConfigDict, Field, model_validator

from eventconsumer_api.shared.model import Model, Since
from eventconsumer_api.spec.body_columns import BodyColumn, ColumnSpec, body_columns
from eventconsumer_api.spec.endpoints import AZURE_HUB_SUFFIXES, AZURE_STORAGE_SUFFIXES
from eventconsumer_api.spec.spark import BatchLimits, Trigger
from eventconsumer_api.v1alpha1 import (
    FileFormat,
    FileLayout,
    HubTransport,
    LeaseDialect,
    LeaseLayout,
    NoticeFormat,
    Processing,
    Retention,
    Roll,
    StartingPosition,
    Table,
)
from eventconsumer_api.wire.document import WireDocument


class ResourceRef(Model):
    """The EventConsumer a host or a Spark job belongs to."""

    namespace: str
    name: str
    uid: str

    @property
    def path(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"


class Credential(Model):
    """A credential, and its names for error messages: one of `connection_string_file` and `client_id` is set."""

    field: str = Field(description="Path of the authentication field in the resource, for messages.")
    secret: str = Field(default="", description="Name of the Secret, for messages.")
    key: str = Field(default="", description="Key in the Secret, for messages.")
    connection_string_file: str | None = None
    client_id: str | None = None


class HubConfig(Model):
    """The Event Hub; namespace and name may be absent if the connection string has them."""

    fully_qualified_namespace: str | None = None
    name: str | None = None
    consumer_group: str
    credential: Credential
    transport: HubTransport = Field(
        default=HubTransport.AMQP,
    )


class ProxyConfig(Model):
    """The HTTP proxy."""

    url: str = Field(description="http://<host>:<port>, without credentials.")
    no_proxy: tuple[str, ...] = ()
    credential: Credential | None = Field(default=None, description="Location of <user>:<password>.")

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.url.rpartition(":")[2])


class BlobContainer(Model):
    """A container; the URL may be absent if the connection string has it."""

    storage_account_url: str | None = None
    storage_api_version: str | None = Field(default=None, description="Absent: the client library's default.")
    container: str
    credential: Credential


class BlobLocation(BlobContainer):
    """A folder in a container."""

    prefix: str = Field(description="Folder inside the container, without a slash at the end; may be empty.")


class LeaseLocation(BlobContainer):
    """The container of the leases."""

    prefix: str | None = Field(
        default=None,
        description="Prefix of the names of lease blobs; no separator is added. Absent: `<namespace of the "
        "hub>/<hub>/` in layout EventProcessorHost, empty in layout AzureSdk.",
    )


class LeaseConfig(Model):
    """Leases and checkpoints."""

    location: LeaseLocation
    layout: LeaseLayout = LeaseLayout.EVENT_PROCESSOR_HOST
    dialect: LeaseDialect = LeaseDialect.AUTO
    duration_seconds: int
    shared: bool = False


class FilesConfig(Model):
    """Format of drained files."""

    format: FileFormat = FileFormat.PARQUET
    layout: FileLayout = FileLayout.SEQUENCE_NUMBER
    empty_files: bool = False


class BodyConfig(Model):
    """Columns of bodies, each in its shortest text, so that equal columns have equal documents."""

    columns: tuple[ColumnSpec, ...]

    @classmethod
    def of(cls, columns: Iterable[BodyColumn]) -> Self | None:
        """The texts of columns; None: there are none."""
        return cls(columns=specs) if (specs := tuple(map(ColumnSpec.of, columns))) else None

    @model_validator(mode="after")
    def _columns_exist(self) -> Self:
        self.parsed()
        return self

    def parsed(self) -> tuple[BodyColumn, ...]:
        """The columns."""
        return body_columns(self.columns)


class NoticesConfig(Model):
    """The receiver of notices about files."""

    url: str
    format: NoticeFormat = NoticeFormat.CLOUD_EVENTS
    header: str = Field(default="Authorization", description="Name of the header with the credential.")
    credential: Credential | None = Field(default=None, description="Value of that header; absent: no header.")


class BatchConfig(Model):
    """Conditions under which the leading host freezes a Spark batch, and limits of the batch."""

    trigger: Trigger = Trigger()
    limits: BatchLimits = BatchLimits()


class ReplayConfig(Model):
    """The end of a replay. Its start is the starting position, and its destination is the sink."""

    name: str = Field(description="Name of the replay.")
    to: AwareDatetime | None = Field(default=None, description="Events enqueued before this time; absent: all.")
    partitions: list[str] = Field(default=[], description="Partition ids. Empty: all.")


class HostConfig(WireDocument):
    """The configuration of a host; a host refuses a field that it does not know, because it may change the files."""

    model_config = ConfigDict(extra="forbid")

    resource: ResourceRef
    event_hub: HubConfig
    leases: LeaseConfig
    starting_position: StartingPosition
    processing: Processing
    sink: BlobLocation
    files: FilesConfig = FilesConfig()
    body: Annotated[BodyConfig | None, Since("0.2.0")] = Field(
        default=None, description="Columns of bodies; absent: none."
    )
    roll: Roll
    table: Table | None = Field(
        default=None,
        description="The table over the files; absent: none.",
    )
    notices: NoticesConfig | None = Field(
        default=None,
        description="The receiver of notices about files; absent: none.",
    )
    retention: Retention | None = Field(
        default=None,
        description="Limits of the files, which the leading host enforces; absent: none.",
    )
    batches: BatchConfig | None = Field(description="Spark batches, which the leading host freezes; absent: none.")
    replay: ReplayConfig | None = Field(default=None, description="Read up to an end and stop; absent: no end.")
    proxy: ProxyConfig | None = Field(
        default=None,
        description="HTTP proxy; absent: that of the environment.",
    )
    drain_seconds: int = Field(description="Time after SIGTERM within which a host must flush and release, seconds.")
    allow_insecure_endpoints: bool = Field(
        default=False,
        description="Plain AMQP and HTTP to any host allowed: set by the administrator for emulators only.",
    )
    hub_suffixes: tuple[str, ...] = Field(
        default=AZURE_HUB_SUFFIXES,
        description="Otherwise, the allowed suffixes of namespaces of Event Hubs.",
    )
    storage_suffixes: tuple[str, ...] = Field(
        default=AZURE_STORAGE_SUFFIXES,
        description="Otherwise, the allowed suffixes of storage accounts.",
    )

    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of its JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]
